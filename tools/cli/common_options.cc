#include "tools/cli/common_options.h"

#include <map>

#include "tools/cli/exit_code.h"

namespace lockstep::cli {

void AddOutputOption(CLI::App& app, OutputFormat& format) {
  app.add_option_function<std::string>(
         "-o,--output",
         [&format](const std::string& name) {
           format = name == "json" ? OutputFormat::kJson : OutputFormat::kTable;
         },
         "table for people (default), json for scripts")
      ->check(CLI::IsMember({"table", "json"}, CLI::ignore_case))
      ->type_name("FORMAT");
}

void AddExamples(CLI::App& app, const std::string& examples) {
  app.footer("\nExamples:\n" + examples + "\n" + kExitCodesHelp);
}

}  // namespace lockstep::cli
