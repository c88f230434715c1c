// Which command the executing thread is at.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/control/activity_page.h"
#include "services/worker/join/envelope.h"

namespace lockstep::worker {

// What is executed now: for answers, and for what errors are attributed to.
//
// Threads: the executing thread.
class RunningCommand {
 public:
  // `activity` is borrowed.
  explicit RunningCommand(control::ActivityPage& activity) : activity_(activity) {}

  // Names what is executed, for errors and for those that ask what this worker does.
  void Name(const char* what) {
    function = what;
    activity_.Name(what, WorkerActivity::Kind::kCommand);
  }

  const BatchContext* batch = nullptr;  // borrowed while it is executed
  uint64_t number = 0;
  std::string function;  // empty: none

 private:
  control::ActivityPage& activity_;
};

}  // namespace lockstep::worker
