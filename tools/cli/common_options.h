// Options that several commands have.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "tools/cli/output.h"

namespace lockstep::cli {

// --output table|json. `format` outlives `app`, as with all options.
void AddOutputOption(CLI::App& app, OutputFormat& format);

// CLI11's help without what the descriptions say better: which options exclude or need each other.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_option_opts(const CLI::Option* option) const override;
};

// The help's last lines: examples (each indented by two spaces), then the exit codes.
void AddExamples(CLI::App& app, const std::string& examples);

}  // namespace lockstep::cli
