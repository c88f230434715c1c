#include "examples/support/flags.h"

#include <CLI/CLI.hpp>
#include <type_traits>

namespace lockstep::examples {

int ParseFlags(const std::string& description, const std::vector<Flag>& flags, int argc,
               char** argv) {
  CLI::App app(description);
  for (const Flag& flag : flags) {
    CLI::Option* option = std::visit(
        [&](auto* value) {
          using Type = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<Type, bool>)
            return app.add_flag(flag.name, *value, flag.doc);
          CLI::Option* const added = app.add_option(flag.name, *value, flag.doc);
          if constexpr (std::is_same_v<Type, std::string>) return added->type_name("TEXT");
          return added->capture_default_str();
        },
        flag.value);
    if (flag.max > 0) option->check(CLI::Range(int64_t{1}, flag.max));
    for (const std::string& other : flag.excludes) option->excludes(app.get_option(other));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return -1;
}

}  // namespace lockstep::examples
