// Decodes what comes in and hands it to the part that deals with it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/parts.h"

namespace lockstep::controller {

// Everything that it has parts do goes to their outbox, and to liveness.
//
// Threads: one at a time.
class Dispatcher {
 public:
  // `on_shutdown` is called when a client asks for the cluster's end, with its reason.
  Dispatcher(const Surroundings& outside, std::function<void(const std::string&)> on_shutdown)
      : clock_(outside.clock),
        address_(outside.address),
        parts_(outside),
        on_shutdown_(std::move(on_shutdown)) {}

  // A client's message. `sender`: as its key has shown; null: it needs none. One that is not OK is
  // refused, and told so.
  Status HandleClient(const control::PeerName& client, const control::Identity* sender,
                      const control::Message& message);
  // A worker's message. One that is not OK is dropped.
  Status HandleWorker(const control::PeerName& worker, const control::Message& message);

  // What liveness and reach-back tell.
  void HandleReport(const WorkerReport& report) {
    parts_.inquiries.Add(report.probe, report.rank, report.frame);
  }
  void HandleFetched(const FetchedTrace& fetched) { parts_.traces.PassOn(fetched); }
  // Nothing more is taken from the worker, for what it has written.
  void HandleBrokenRing(const control::PeerName& worker, const Status& why) {
    parts_.world.HandleBrokenRing(worker, why);
  }
  void HandleBrokenPlace(const control::PeerName& worker, const Status& why) {
    parts_.world.HandleBrokenPlace(worker, why);
  }
  void HandleLosses() { parts_.world.NoticeLosses(); }
  void HandleReachResults() { parts_.admission.HandleReachResults(); }

  // What is due by now. Called at next_timer() at the latest.
  void HandleTimers();
  Deadline next_timer() const { return parts_.timers.next(); }

  // The cluster ends, in two steps, so that clients hear of it before anything is waited for: first
  // work in flight is aborted, and sessions' clients are told why, ...
  void EndSessions(const std::string& reason);
  // ... then, once the aborts are on their way, clients that wait for workers, and the workers.
  void Shutdown(const std::string& reason);

  Parts& parts() { return parts_; }

 private:
  Status Dispatch(const control::PeerName& client, const control::Identity* sender,
                  const control::Message& message, wire::ClientMessage::Reader reader);
  Status Dispatch(Rank rank, const control::Message& message, wire::WorkerMessage::Reader reader);

  // False: it is not a message of another protocol. Else its sender has been told who listens here.
  bool AnswerStranger(const control::PeerName& client, const control::Frame& frame);

  const Clock& clock_;
  const ControllerAddress address_;
  Parts parts_;
  const std::function<void(const std::string&)> on_shutdown_;
};

}  // namespace lockstep::controller
