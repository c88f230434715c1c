// Timelines for clients: tells the workers when to record, and passes on what they have recorded
// (schemas/trace.capnp).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/frame.h"
#include "schemas/trace.capnp.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tracing.h"
#include "services/controller/options.h"
#include "services/controller/reports/unread_answers.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class TraceService {
 public:
  TraceService(const ControllerOptions& options, const Clock& clock, const Membership& membership,
               Liveness& liveness, Outbox& outbox, UnreadAnswers& unread, Tracing& tracing)
      : options_(options),
        clock_(clock),
        membership_(membership),
        liveness_(liveness),
        outbox_(outbox),
        unread_(unread),
        tracing_(tracing) {}

  void Handle(const control::PeerName& client, wire::TraceRequest::Reader request);
  // What a worker has recorded, to the client that fetches it.
  void PassOn(const FetchedTrace& fetched);
  // The trace is over if its client was silent for longer than its lease.
  void EndIfSilent(TimePoint now);

 private:
  // Asks a worker; OK: its answer will be passed on.
  Status Ask(uint64_t trace, uint64_t request, wire::FetchTrace::Reader fetch);
  void End();

  const ControllerOptions& options_;
  const Clock& clock_;
  const Membership& membership_;
  Liveness& liveness_;
  Outbox& outbox_;
  UnreadAnswers& unread_;
  Tracing& tracing_;
};

}  // namespace lockstep::controller
