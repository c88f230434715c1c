// How other threads reach the one that executes: to stop it, to tell it that a controller or a
// world is lost, to abort its sessions' work, and to ask what it has.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/input_waiter.h"
#include "services/worker/execute/executor.h"
#include "services/worker/join/envelope.h"
#include "services/worker/report/worker_metrics.h"

namespace lockstep::worker {

// Threads: as each part says.
class ExecutionControl {
 public:
  // `metrics` are borrowed. A worker that has lost its controller looks for another one for
  // `controller_grace`; 0: it ends.
  ExecutionControl(WorkerMetrics& metrics, std::chrono::milliseconds controller_grace)
      : metrics_(metrics), controller_grace_(controller_grace) {}

  // From any thread.
  // A command that runs is finished, collectives are aborted.
  void RequestStop(const std::string& reason);
  // There is no controller any more, and why.
  void OnControllerLost(const Status& why);
  // The controller has given this worker up, and why.
  void OnDismissed(const Status& why);
  // The worlds up to this one have lost a worker.
  void OnWorldBroken(Epoch epoch);
  void AbortSession(SessionId session, const AbortOrder& abort);
  size_t CountSessions();
  std::string stop_reason();

  // On the executing thread.
  // The others reach this executor from now on; null: there is none.
  void SetExecutor(Executor* executor);
  // The worker is to stop, or its controller is lost: it is served no more. wake_fd() is signalled
  // then.
  const std::atomic<bool>& interrupted() const { return interrupted_; }
  int wake_fd() const { return wake_up_.fd(); }
  // Around connecting with the ranks of the world of `epoch`, as `rank`: it is given up when that
  // world breaks, or the worker is interrupted.
  void BeginConnecting(Rank rank, Epoch epoch);
  const std::atomic<bool>& cancel_connecting() const { return cancel_connecting_; }
  void EndConnecting();
  // Serving a controller has ended with `served`. Why this worker ends; none: it goes on to look
  // for another controller, and is ready to.
  std::optional<Status> WhyItEnds(const Status& served);
  // See SessionDirectory.
  std::string DescribeMemoryUse();

 private:
  // With mutex_ held: wakes the executing thread from whatever it waits for.
  void Interrupt(const std::string& why);

  WorkerMetrics& metrics_;
  const std::chrono::milliseconds controller_grace_;
  control::WakeUp wake_up_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> cancel_connecting_{false};

  std::mutex mutex_;  // guards what follows
  Executor* executor_ = nullptr;
  bool stopping_ = false;
  std::string stop_reason_;
  Epoch connecting_;        // the world that it connects, or has connected, with
  Epoch broken_;            // worlds of this controller up to this one have lost a worker
  Status controller_lost_;  // OK: there is one
  Status dismissed_;        // OK: it is not
};

}  // namespace lockstep::worker
