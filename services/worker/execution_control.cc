#include "services/worker/execution_control.h"

#include "runtime/base/log.h"
#include "runtime/control/error_codec.h"

namespace lockstep::worker {

void ExecutionControl::Interrupt(const std::string& why) {
  interrupted_ = true;
  cancel_connecting_ = true;
  wake_up_.Signal();
  metrics_.SetReady(Unavailable(why));
  if (executor_ != nullptr) executor_->sessions().AbortAll(control::ErrorOf(Aborted(why)));
}

void ExecutionControl::RequestStop(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  stop_reason_ = reason;
  stopping_ = true;
  Interrupt("the worker stops: " + reason);
}

void ExecutionControl::OnControllerLost(const Status& why) {
  std::lock_guard lock(mutex_);
  controller_lost_ = why;
  Interrupt(Message(why));
}

void ExecutionControl::OnDismissed(const Status& why) {
  std::lock_guard lock(mutex_);
  dismissed_ = why;
  Interrupt(Message(why));
}

void ExecutionControl::OnWorldBroken(Epoch epoch) {
  std::lock_guard lock(mutex_);
  if (epoch <= broken_) return;  // said again
  broken_ = epoch;
  if (connecting_ > broken_) return;
  cancel_connecting_ = true;
  // Of any generation: a rank that is behind may be waiting for the lost one in work that the
  // client has given up since, and that no abort of a session is about.
  metrics_.SetReady(Unavailable("a worker of the cluster is lost"));
  if (executor_ != nullptr) {
    executor_->SetWorldBroken(true);
    executor_->sessions().AbortAll(
        control::ErrorOf(Unavailable("a worker of the cluster is lost")));
  }
}

void ExecutionControl::AbortSession(SessionId session, const AbortOrder& abort) {
  std::lock_guard lock(mutex_);
  metrics_.NoteAbort();
  if (executor_ != nullptr) executor_->sessions().Abort(session, abort);
}

size_t ExecutionControl::CountSessions() {
  std::lock_guard lock(mutex_);
  return executor_ == nullptr ? 0 : executor_->sessions().Count();
}

std::string ExecutionControl::stop_reason() {
  std::lock_guard lock(mutex_);
  return stop_reason_;
}

void ExecutionControl::SetExecutor(Executor* executor) {
  std::lock_guard lock(mutex_);
  executor_ = executor;
}

void ExecutionControl::BeginConnecting(Rank rank, Epoch epoch) {
  std::lock_guard lock(mutex_);
  connecting_ = epoch;
  const bool broken = epoch <= broken_;
  if (!interrupted_) metrics_.Enter(rank, epoch);
  executor_->SetWorldBroken(broken);
  cancel_connecting_ = interrupted_ || broken;
}

void ExecutionControl::EndConnecting() {
  std::lock_guard lock(mutex_);
  if (!interrupted_ && broken_ < connecting_) metrics_.SetReady(OkStatus());
}

std::optional<Status> ExecutionControl::WhyItEnds(const Status& served) {
  std::lock_guard lock(mutex_);
  if (!dismissed_.ok()) return dismissed_;
  // A wait that was interrupted is no failure; why it was may be one.
  const bool is_failure = !served.ok() && served.code() != StatusCode::kAborted;
  if (is_failure || (!stopping_ && controller_lost_.ok())) return served;
  if (stopping_) {
    log::Info("worker stops: ", stop_reason_);
    return OkStatus();
  }
  if (controller_grace_.count() == 0) {
    return Annotate(controller_lost_,
                    "what its sessions held is gone, start the worker again to join");
  }
  log::Warn("worker has lost its controller: ", Message(controller_lost_),
            "; it keeps its registers for ", controller_grace_.count(), " ms");
  controller_lost_ = OkStatus();
  // Another controller gives its worlds numbers of its own: smaller ones, if its clock is behind.
  connecting_ = broken_ = Epoch();
  interrupted_ = false;
  wake_up_.Clear();
  return std::nullopt;
}

std::string ExecutionControl::DescribeMemoryUse() {
  // Not under the lock: it is this thread that sets it.
  Executor* executor = nullptr;
  {
    std::lock_guard lock(mutex_);
    executor = executor_;
  }
  return executor == nullptr ? "" : executor->sessions().DescribeMemoryUse();
}

}  // namespace lockstep::worker
