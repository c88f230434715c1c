#include "services/controller/sessions/function_times.h"

#include <algorithm>

namespace lockstep::controller {

void FunctionTimes::Note(Rank rank, WatchId worker, const WorkerActivity& activity, bool counts) {
  Seen& last = last_[static_cast<size_t>(rank)];
  const bool has_ended = last.worker != worker || last.launched != activity.launched ||
                         last.activity.kind != activity.kind;
  const bool was_command = last.activity.kind == WorkerActivity::Kind::kCommand;
  // That of a worker that is lost has not come to its end.
  if (has_ended && was_command && counts && last.worker == worker && !last.activity.what.empty()) {
    const auto found = longest_.find(last.activity.what);
    if (found != longest_.end()) {
      found->second = std::max(found->second, last.activity.since);
    } else if (longest_.size() < kMostFunctions) {
      longest_.emplace(last.activity.what, last.activity.since);
    }
  }
  last = {worker, activity.launched, activity};
}

std::chrono::milliseconds FunctionTimes::Longest(const std::string& function) const {
  const auto found = longest_.find(function);
  return found == longest_.end() ? std::chrono::milliseconds(0) : found->second;
}

}  // namespace lockstep::controller
