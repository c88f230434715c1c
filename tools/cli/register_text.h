// What registers hold, for people and for scripts.
#pragma once

#include <ostream>
#include <vector>

#include "runtime/client/register_listing.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// A table for each session. Ranks that hold the same in a register share a line.
void PrintRegisters(std::ostream& out, const text::Style& style,
                    const std::vector<RankRegisters>& ranks);
// Those that have not told what they hold, and why.
void PrintSilentRanks(std::ostream& out, const text::Style& style,
                      const std::vector<RankRegisters>& ranks);

Json RegistersToJson(const std::vector<RankRegisters>& ranks);

}  // namespace lockstep::cli
