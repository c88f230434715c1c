// Options that several commands have.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {

// What standard output is for: people, or scripts.
enum class OutputFormat { kTable, kJson };

// --output table|json.
void AddOutputOption(Command command, OutputFormat& format);

struct KeyOptions {
  std::string key;             // --key
  std::string controller_key;  // --controller-key
};

// --key, --controller-key.
void AddKeyOptions(Command command, KeyOptions& options);

// `address` with the keys of the options; else those that it has; else those of $LOCKSTEP_KEY and
// $LOCKSTEP_CONTROLLER_KEY.
ControllerAddress WithKeys(ControllerAddress address, const KeyOptions& options);
// The same, of which it is known that the keys can be read. Exit code 2 whatever is wrong with
// them.
StatusOr<ControllerAddress> WithCheckedKeys(ControllerAddress address, const KeyOptions& options);

}  // namespace lockstep::cli
