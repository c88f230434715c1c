// Options that several commands have.
#pragma once

#include "tools/cli/command_line.h"

namespace lockstep::cli {

// What standard output is for: people, or scripts.
enum class OutputFormat { kTable, kJson };

// --output table|json.
void AddOutputOption(Command command, OutputFormat& format);

}  // namespace lockstep::cli
