// Runs what a command does together with other ranks, and ends it if one of them does not come.
#pragma once

#include <atomic>
#include <chrono>

#include "absl/functional/function_ref.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/tensor/processor.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/membership.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: SetWorldBroken() is safe from any; all else belongs to the executing thread.
class CollectiveRunner {
 public:
  // As in CommandRunner. All is borrowed.
  struct Parts {
    const tensor::Processors& places;
    control::ActivityPage& activity;
    Recorder* recorder;
    RunningCommand& running;
    std::chrono::milliseconds cause_grace;
  };
  explicit CollectiveRunner(const Parts& parts) : parts_(parts) {}

  // As CommandRunner's.
  void SetMembership(const Membership& membership);
  void SetWorld(const WorldLinks& world) { world_ = world; }
  void SetWorldBroken(bool broken) { world_broken_ = broken; }

  // Runs `execute`, in which this rank meets others. `is_message`: for want of a rank it fails for
  // a cause of its own. kAborted: the session's work was given up before it began. kUnavailable:
  // the world is broken. Else what `execute` returns.
  Status Run(SessionState& session, const char* name, bool is_message,
             absl::FunctionRef<Status(const CollectiveContext&)> execute);

 private:
  const Parts parts_;
  const Membership* membership_ = nullptr;
  WorldLinks world_;
  std::atomic<bool> world_broken_{false};
};

}  // namespace lockstep::worker
