// What the controller does with the workers' messages.
#include <algorithm>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {

Status Controller::HandleWorker(const control::PeerName& peer, const control::Message& message) {
  if (message.empty()) return InvalidArgument("an empty message");
  return control::DecodeMessage<wire::WorkerMessage>(
      message[0], [&](wire::WorkerMessage::Reader reader) -> Status {
        if (reader.isHello()) {
          HandleHello(peer, reader.getHello());
          return OkStatus();
        }
        const Rank rank = membership_.FindPeer(peer);
        if (reader.isGoodbye()) {
          // One that was refused says it, too.
          if (rank >= 0) {
            HandleLost(rank, "it left: " + control::ToString(reader.getGoodbye()),
                       liveness_->LastHeardOf(rank));
          }
          return OkStatus();
        }
        if (rank < 0) return FailedPrecondition("its sender has not joined");
        switch (reader.which()) {
          case wire::WorkerMessage::READY:
            HandleReady(rank, reader.getReady());
            return OkStatus();
          case wire::WorkerMessage::TROUBLE:
            HandleTrouble(rank, reader.getTrouble());
            return OkStatus();
          case wire::WorkerMessage::REPLY: {
            auto reply = reader.getReply();
            control::RemoteError error;
            if (reply.hasError()) error = control::ReadError(reply.getError());
            SessionEntry* const session = sessions_.Find(SessionId(reply.getSession()));
            if (session != nullptr) {
              Generation& come_to = session->come_to[static_cast<size_t>(rank)];
              come_to = std::max(come_to, Generation(reply.getGeneration()));
            }
            if (RequestId(reply.getRequest()) == SessionEntry::kEndRequest) {
              if (session != nullptr && session->ending.has_value()) {
                NoteEnded(*session, rank, error);
              }
              return OkStatus();
            }
            gatherer_.Answer(SessionId(reply.getSession()), RequestId(reply.getRequest()), rank,
                             error, message.size() > 1 ? message[1] : control::Frame());
            return OkStatus();
          }
          case wire::WorkerMessage::FAILURE:
            HandleFailure(rank, reader.getFailure());
            return OkStatus();
          case wire::WorkerMessage::CONSUMED:
            HandleConsumed(rank, reader.getConsumed());
            return OkStatus();
          case wire::WorkerMessage::OUTPUT:
            return HandleOutput(rank, reader.getOutput(), message);
          default:
            return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()));
        }
      });
}

void Controller::HandleFailure(Rank rank, wire::Failure::Reader failure) {
  control::RemoteError error = control::ReadError(failure.getError());
  error.rank = rank;
  const Generation generation(failure.getGeneration());
  SessionEntry* session = sessions_.Find(error.session);
  if (session == nullptr || generation > session->generation) return;
  if (generation == session->generation) return FailSession(*session, error, error.command);
  // A rank that was behind has failed earlier than the one that the client has read of. Nothing is
  // to be told any more, but its peers may be waiting for it in a command of that time.
  liveness_->Abort(session->id, generation, error.command, error);
}

void Controller::HandleConsumed(Rank rank, wire::Consumed::Reader consumed) {
  SessionEntry* session = sessions_.Find(SessionId(consumed.getSession()));
  if (session == nullptr) return;
  const uint64_t before = session->SlowestConsumed();
  uint64_t& bytes = session->consumed[static_cast<size_t>(rank)];
  if (bytes == SessionEntry::kConsumesNothing) return;  // the last words of a lost worker
  bytes = consumed.getBytes();
  if (session->SlowestConsumed() != before) SendCredit(*session);
}

void Controller::SendCredit(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto credit = message.initCredit();
         credit.setSession(session.id.value);
         credit.setConsumedBytes(session.SlowestConsumed() + session.lost_bytes);
       })});
}

}  // namespace lockstep::controller
