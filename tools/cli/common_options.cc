#include "tools/cli/common_options.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/control/keys/gate.h"

namespace lockstep::cli {
namespace {

std::string FirstOf(const std::string& given, const std::string& known, const char* variable) {
  if (!given.empty()) return given;
  if (!known.empty()) return known;
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

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

void AddKeyOptions(Command command, KeyOptions& options) {
  command
      .Add("--key", options.key,
           "a file with one's own secret key, for a controller that asks\n"
           "for keys; without it $LOCKSTEP_KEY")
      .Placeholder("FILE");
  command
      .Add("--controller-key", options.controller_key,
           "the controller's public key, or a file with it; without it\n"
           "$LOCKSTEP_CONTROLLER_KEY")
      .Placeholder("KEY");
}

ControllerAddress WithKeys(ControllerAddress address, const KeyOptions& options) {
  address.key = FirstOf(options.key, address.key, "LOCKSTEP_KEY");
  address.controller_key =
      FirstOf(options.controller_key, address.controller_key, "LOCKSTEP_CONTROLLER_KEY");
  return address;
}

StatusOr<ControllerAddress> WithCheckedKeys(ControllerAddress address, const KeyOptions& options) {
  ControllerAddress with_keys = WithKeys(std::move(address), options);
  const Status readable =
      control::CredentialsFrom(with_keys.key, with_keys.controller_key).status();
  if (!readable.ok()) return WithExitCode(readable, ExitCode::kUsage);
  return with_keys;
}

}  // namespace lockstep::cli
