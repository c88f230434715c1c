// Everything that is said to a session's client: what its session has come to, and answers.
#pragma once

#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "services/controller/common/command_rings.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Encodes messages, and counts them where a client does (see wire::KeepAlive). Decides nothing.
//
// Threads: one at a time. What it is made of must outlive it.
class ClientMessenger {
 public:
  // `controller`: the epoch in which this one was started.
  ClientMessenger(const Tools& tools, Outbox& outbox, Epoch controller, SessionTable& sessions,
                  CommandRings& rings)
      : tools_(tools),
        outbox_(outbox),
        controller_(controller),
        sessions_(sessions),
        rings_(rings) {}

  // It is the client's from now on, and how it stands.
  void TellOpened(SessionEntry& session);
  // The first cause.
  void TellFailure(SessionEntry& session);
  // What the slowest worker has consumed.
  void TellCredit(SessionEntry& session);
  // Which of its ranks have other workers now; nothing if none has.
  void TellReplaced(SessionEntry& session);
  // What functions have printed. `lines`: the worker's frame, or none.
  void TellOutput(SessionEntry& session, Rank rank, const control::Frame& lines);
  // How much output was dropped, also when no line comes after it.
  void TellDropped(SessionEntry& session);
  // Answers a keep-alive. `missing`: some of the client's messages have not come.
  void TellKeepAlive(const SessionEntry& session, bool missing);
  void TellShutdown(const control::PeerName& client, const std::string& reason);

  // The answer to a request that is complete. Output comes before it.
  void SendAnswer(const PendingRequest& request);
  void Answer(const control::PeerName& client, SessionId session, RequestId request,
              const control::RemoteError& error);
  // What it has asked for is refused. `resume`: that was to resume a session.
  void Refuse(const control::PeerName& client, const Status& why, bool resume = false);

 private:
  // To the session's client, which counts it.
  void Tell(SessionEntry& session, control::Message message);

  const Tools& tools_;
  Outbox& outbox_;
  const Epoch controller_;
  SessionTable& sessions_;
  CommandRings& rings_;
};

}  // namespace lockstep::controller
