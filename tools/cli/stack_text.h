// The stacks of ranks that execute the same: few lines, however many ranks there are.
#pragma once

#include <ostream>
#include <vector>

#include "runtime/client/admin.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// Of more different stacks than these the rest is counted.
inline constexpr size_t kMostStacks = 3;

// The stack that most of them have is shown whole. Of others only the innermost frames, down to
// where they come from the same as the first: there is what differs. Why there is no stack is told
// likewise. Nothing if no rank has told any.
void PrintStacks(std::ostream& out, const text::Style& style,
                 const std::vector<const WorkerStatus*>& workers);

}  // namespace lockstep::cli
