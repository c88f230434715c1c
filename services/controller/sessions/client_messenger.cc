#include "services/controller/sessions/client_messenger.h"

#include <optional>
#include <utility>

#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "schemas/session.capnp.h"

namespace lockstep::controller {
namespace {

// The list is as long as there are ranks whose worker was replaced.
void WriteReplaced(capnp::List<wire::Replacement>::Builder list, const SessionEntry& session) {
  unsigned i = 0;
  for (const auto& [rank, from_command] : session.replaced) {
    list[i].setRank(rank);
    list[i++].setFromCommand(from_command);
  }
}

}  // namespace

void ClientMessenger::Tell(SessionEntry& session, control::Message message) {
  ++session.told_messages;
  outbox_.ToClient(session.client, std::move(message));
}

void ClientMessenger::TellOpened(SessionEntry& session) {
  // Each message of a client with a key is looked at for what its key allows now: by ring it would
  // show none.
  const std::optional<control::RingOffer> ring =
      session.owner.has_value() ? std::nullopt : rings_.OfferTo(session.client);
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto opened = message.initSessionOpened();
         opened.setSession(session.id.value);
         opened.setToken(session.token);
         opened.setVersion(kProtocolVersion);
         WritePeers(opened.initWorkers(static_cast<unsigned>(tools_.membership.size())),
                    tools_.membership);
         opened.setController(controller_.value);
         opened.setLeaseMillis(static_cast<uint32_t>(tools_.options.session_lease.count()));
         opened.setFlowWindowBytes(tools_.options.flow_window_bytes);
         opened.setMaxBatchBytes(tools_.options.max_batch_bytes);
         opened.setCluster(tools_.options.cluster);
         control::SessionRecord record = session.Record();
         record.consumed_bytes = session.commands.sent_bytes();
         control::WriteSessionRecord(opened.initRecord(), record);
         opened.setUnderWayBytes(session.commands.UnderWay());
         WriteReplaced(opened.initReplaced(static_cast<unsigned>(session.replaced.size())),
                       session);
         if (ring.has_value()) {
           opened.setRingAddress(ring->address);
           opened.setRingNonce(ring->nonce);
         }
       })});
}

void ClientMessenger::TellFailure(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto failed = message.initSessionFailed();
         failed.setSession(session.id.value);
         failed.setGeneration(session.generation.value);
         control::WriteError(failed.initError(), session.failure);
       })});
}

void ClientMessenger::TellCredit(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto credit = message.initCredit();
         credit.setSession(session.id.value);
         credit.setConsumedBytes(session.commands.credit());
       })});
}

void ClientMessenger::TellReplaced(SessionEntry& session) {
  if (session.replaced.empty()) return;
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto news = message.initWorkersReplaced();
         news.setSession(session.id.value);
         WritePeers(news.initWorkers(static_cast<unsigned>(tools_.membership.size())),
                    tools_.membership);
         WriteReplaced(news.initReplaced(static_cast<unsigned>(session.replaced.size())), session);
       })});
}

void ClientMessenger::TellOutput(SessionEntry& session, Rank rank, const control::Frame& lines) {
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto told) {
    auto output = told.initOutput();
    output.setSession(session.id.value);
    output.setRank(rank);
    output.setPosition(session.output.position());
    output.setDropped(session.output.TakeDropped(rank));
  })};
  if (lines.size() > 0) message.push_back(lines);
  Tell(session, std::move(message));
}

void ClientMessenger::TellDropped(SessionEntry& session) {
  while (!session.output.dropped().empty()) {
    TellOutput(session, session.output.dropped().begin()->first, control::Frame());
  }
}

void ClientMessenger::TellKeepAlive(const SessionEntry& session, bool missing) {
  outbox_.ToClient(session.client, {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
                     auto answer = m.initKeepAlive();
                     answer.setSession(session.id.value);
                     answer.setSent(session.told_messages);
                     answer.setMissing(missing);
                   })});
}

void ClientMessenger::TellShutdown(const control::PeerName& client, const std::string& reason) {
  outbox_.ToClient(client, {control::EncodeMessage<wire::ControllerMessage>(
                               [&](auto message) { message.setShutdown(reason); })});
}

void ClientMessenger::Answer(const control::PeerName& client, SessionId session, RequestId request,
                             const control::RemoteError& error) {
  PendingRequest answer;
  answer.client = client;
  answer.session = session;
  answer.request = request;
  answer.error = error;
  SendAnswer(answer);
}

void ClientMessenger::SendAnswer(const PendingRequest& request) {
  if (request.began != TimePoint()) {
    tools_.counts.requests.Observe(tools_.clock.Now() - request.began);
    tools_.tracing.Mark("request answered", request.session, 0, request.error.code);
  }
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
    auto answer = m.initAnswer();
    answer.setSession(request.session.value);
    answer.setRequest(request.request.value);
    if (!request.error.ok()) control::WriteError(answer.initError(), request.error);
  })};
  if (request.error.ok() && !request.bodies.empty()) message.push_back(request.JoinedBodies());
  SessionEntry* const session = sessions_.Find(request.session);
  if (session != nullptr && session->client == request.client) {
    TellDropped(*session);
    return Tell(*session, std::move(message));
  }
  outbox_.ToClient(request.client, std::move(message));
}

void ClientMessenger::Refuse(const control::PeerName& client, const Status& why, bool resume) {
  outbox_.ToClient(client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                     auto refused = message.initRefused();
                     control::WriteError(refused.initError(), control::ErrorOf(why));
                     refused.setController(controller_.value);
                     refused.setResume(resume);
                   })});
}

}  // namespace lockstep::controller
