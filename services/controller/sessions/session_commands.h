// What clients have workers do: batches, resets, names of registers; and what workers answer.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/session_ender.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// A Status that is returned says that the message makes no sense, or is for no session of the
// client's: it is refused. What can be answered is answered.
//
// Threads: one at a time. What it is made of must outlive it.
class SessionCommands {
 public:
  SessionCommands(const Tools& tools, Broadcaster& broadcaster, SessionTable& sessions,
                  Gatherer& gatherer, ClientMessenger& messenger, SessionFailures& failures,
                  SessionEnder& ender)
      : tools_(tools),
        broadcaster_(broadcaster),
        limits_{tools.options.flow_window_bytes, tools.options.max_batch_bytes},
        sessions_(sessions),
        gatherer_(gatherer),
        messenger_(messenger),
        failures_(failures),
        ender_(ender) {}

  // Sends the batch on to all workers. `message`: the header, which `batch` reads, and the body,
  // which is never decoded.
  Status HandleBatch(const control::PeerName& client, wire::Batch::Reader batch,
                     const control::Message& message);
  // Begins the session's next generation.
  Status HandleReset(const control::PeerName& client, wire::ResetSession::Reader reset);
  // Gives a register a name, or takes one back.
  Status HandleName(const control::PeerName& client, wire::NameRegister::Reader name);

  // `rank` answers a request, or says that it has closed a session. `body`: of the answer, or none.
  void HandleReply(Rank rank, wire::Reply::Reader reply, control::Frame body);
  // `rank` has executed so much: the client may have credit.
  void HandleConsumed(Rank rank, wire::Consumed::Reader consumed);

 private:
  // kInvalidArgument for a number that only the controller gives to requests.
  static Status CheckRequest(RequestId request);
  // kResourceExhausted for a client that asks and asks, and does not wait for answers.
  Status CheckRoomForRequest(const SessionEntry& session) const;
  Status CheckRoomForReset(const SessionEntry& session, Generation generation) const;
  Status CheckBatch(wire::Batch::Reader batch, const control::Message& message) const;
  // It is of a generation that the session has not come to: its client takes a reset for done that
  // was lost or refused.
  static bool IsAhead(const SessionEntry& session, wire::Batch::Reader batch);
  // OK, or why the batch is not sent on.
  Status Admit(SessionEntry& session, wire::Batch::Reader batch, size_t body_bytes);
  void Reject(SessionEntry& session, wire::Batch::Reader batch, const Status& why);

  const Tools& tools_;
  Broadcaster& broadcaster_;
  const FlowLimits limits_;
  SessionTable& sessions_;
  Gatherer& gatherer_;
  ClientMessenger& messenger_;
  SessionFailures& failures_;
  SessionEnder& ender_;
};

}  // namespace lockstep::controller
