// The keys that a command shows to a controller that asks for some.
#pragma once

#include <string>

#include "runtime/client/address.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {

struct KeyOptions {
  std::string key;             // --key
  std::string controller_key;  // --controller-key
};

// --key, --controller-key.
void AddKeyOptions(Command command, KeyOptions& options);

// `address` with the keys of the options; else those that it has; else those of $LOCKSTEP_KEY and
// $LOCKSTEP_CONTROLLER_KEY.
ControllerAddress WithKeys(ControllerAddress address, const KeyOptions& options);

}  // namespace lockstep::cli
