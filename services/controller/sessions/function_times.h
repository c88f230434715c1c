// How long functions take, as far as workers' activity shows: by that, a command that takes longer
// than ever is told from a function that is always slow.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/worker_report.h"
#include "services/controller/common/liveness.h"

namespace lockstep::controller {

// Knows only commands that were under way when it looked: the others were too short to matter.
// Of functions that it has no room for, nothing is known.
//
// Threads: one at a time.
class FunctionTimes {
 public:
  static constexpr size_t kMostFunctions = 1024;

  explicit FunctionTimes(int ranks) : last_(static_cast<size_t>(ranks)) {}

  // What the worker of `rank` does now. What it did when it was noted last has ended if it does
  // something else: that counts if `counts`, which says that it did not fail.
  void Note(Rank rank, WatchId worker, const WorkerActivity& activity, bool counts);

  // Of what the worker of `rank` did when it was noted last.
  SessionId SessionOf(Rank rank) const { return last_[static_cast<size_t>(rank)].activity.session; }
  // The longest that this function is known to have taken, on any rank; 0: it is not known.
  std::chrono::milliseconds Longest(const std::string& function) const;

 private:
  struct Seen {
    WatchId worker;
    uint64_t launched = 0;
    WorkerActivity activity;
  };

  std::vector<Seen> last_;  // by rank
  std::map<std::string, std::chrono::milliseconds> longest_;
};

}  // namespace lockstep::controller
