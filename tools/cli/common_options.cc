#include "tools/cli/common_options.h"

#include <string>

namespace lockstep::cli {

void AddOutputOption(Command command, OutputFormat& format) {
  command
      .Add(
          "-o,--output",
          [&format](const std::string& name) {
            format = name == "json" ? OutputFormat::kJson : OutputFormat::kTable;
          },
          "table for people (default), json for scripts")
      .OneOf({"table", "json"})
      .Placeholder("FORMAT");
}

}  // namespace lockstep::cli
