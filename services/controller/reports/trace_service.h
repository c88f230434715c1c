// Timelines for clients: tells the workers when to record, and passes on what they have recorded
// (schemas/trace.capnp).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/trace.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/common/tracing.h"
#include "services/controller/reports/unread_answers.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class TraceService {
 public:
  TraceService(const Tools& tools, Tracing& tracing, Outbox& outbox, Liveness& liveness,
               UnreadAnswers& unread)
      : tools_(tools), tracing_(tracing), outbox_(outbox), liveness_(liveness), unread_(unread) {}

  void Handle(const control::PeerName& client, wire::TraceRequest::Reader request);
  // What a worker has recorded, to the client that fetches it.
  void PassOn(const FetchedTrace& fetched);
  // The trace is over if its client was silent for longer than its lease.
  void EndIfSilent(TimePoint now);

 private:
  // Asks a worker; OK: its answer will be passed on.
  Status Ask(uint64_t trace, uint64_t request, wire::FetchTrace::Reader fetch);
  void End();

  const Tools& tools_;
  Tracing& tracing_;
  Outbox& outbox_;
  Liveness& liveness_;
  UnreadAnswers& unread_;
};

}  // namespace lockstep::controller
