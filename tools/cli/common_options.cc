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

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (!option->get_type_name().empty()) text += " " + option->get_type_name();
  if (!option->get_default_str().empty()) text += " (" + option->get_default_str() + ")";
  if (option->get_required()) text += " (required)";
  return text;
}

void AddExamples(CLI::App& app, const std::string& examples) {
  app.footer("Examples:\n" + examples + "\n" + kExitCodesHelp);
}

}  // namespace lockstep::cli
