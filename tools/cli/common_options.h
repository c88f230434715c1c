// Options that several commands have.
#pragma once

#include "tools/cli/command_line.h"
#include "tools/cli/output.h"

namespace lockstep::cli {

// --output table|json.
void AddOutputOption(Command command, OutputFormat& format);

}  // namespace lockstep::cli
