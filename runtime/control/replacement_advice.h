// What an operator can do about a worker that is lost, or that does not end what it executes.
//
// Clusters differ in how a worker is started again, so the controller is told (its setting
// replacement_hint), and its errors, `lockstep status` and `lockstep why` say the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"

namespace lockstep {

// The hint for these ranks: "{rank}" in it is the rank. Several are told as "R (R: 0-2, 5)".
// Empty for an empty hint.
std::string HowToReplace(std::string_view hint, absl::Span<const Rank> ranks);

struct WorkerProcess {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  bool may_have_ended = false;  // it is out of reach
};

// "`kill -9 4711` on node7 ends it; then <HowToReplace()>", for processes that do not end
// by themselves; "... ends it if it is still there; then ..." if that is not known.
std::string HowToEnd(std::string_view hint, const std::vector<WorkerProcess>& processes);

}  // namespace lockstep
