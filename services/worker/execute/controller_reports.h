// What the executing thread tells the controller: answers, failures of sessions, and what it has
// consumed; and whose output it is that functions print meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/membership.h"
#include "services/worker/output/output_forwarder.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: one. What it is given is borrowed.
class ControllerReports {
 public:
  // `recorder` may be null: then errors are not counted.
  explicit ControllerReports(Recorder* recorder) : recorder_(recorder) {}

  // Reports go there from now on.
  void SetController(const Membership& membership, control::ClientChannel& controller) {
    membership_ = &membership;
    controller_ = &controller;
  }

  // What functions print goes through it; null: to this process's log alone.
  void ForwardOutputBy(OutputForwarder* forwarder) { forwarder_ = forwarder; }
  // Around code of the session's modules. EndForwarding() before anything is said of the session,
  // so that its client reads first what was printed before.
  void BeginForwarding(const SessionState& session) {
    if (forwarder_ == nullptr || is_forwarding_ || !session.forward_output()) return;
    is_forwarding_ = true;
    forwarder_->Begin(session.id(), *controller_);
  }
  void EndForwarding() {
    if (std::exchange(is_forwarding_, false)) forwarder_->End();
  }

  // Answers the request of `batch`, if it has one. `body` may be empty.
  void Reply(const BatchContext& batch, const control::RemoteError& error,
             const control::Frame& body);
  // Fails the session at `command`, which executed `function` (empty: none), and tells the
  // controller unless the failure is known there.
  void Fail(SessionState& session, uint64_t command, const std::string& function,
            const Status& status);
  // A batch of the session's client with a body of that size is executed.
  void ReportConsumed(SessionState& session, size_t body_bytes);

 private:
  void Send(const control::Message& message);

  Recorder* const recorder_;
  const Membership* membership_ = nullptr;
  control::ClientChannel* controller_ = nullptr;
  OutputForwarder* forwarder_ = nullptr;
  bool is_forwarding_ = false;
};

}  // namespace lockstep::worker
