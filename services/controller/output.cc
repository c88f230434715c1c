// What functions print, on its way from the workers to the client. Lines are not read here.

#include "runtime/control/message_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

constexpr size_t kMaxLinesBytes = size_t{256} << 10;

}  // namespace

Status Controller::HandleOutput(Rank rank, wire::Output::Reader output,
                                const control::Message& message) {
  const size_t size_bytes = message.size() > 1 ? message[1].size() : 0;
  if (size_bytes == 0 || size_bytes > kMaxLinesBytes) {
    return InvalidArgument("output of rank ", rank, " has 1 to ", kMaxLinesBytes, " bytes, not ",
                           size_bytes);
  }
  SessionEntry* const session = sessions_.Find(SessionId(output.getSession()));
  // One that has no client any more, or another one, is printed for by what was under way.
  if (session == nullptr || session->client.empty() || !session->forward_output) return OkStatus();
  if (!session->output.Admit(size_bytes)) {
    session->output.Drop(rank, output.getLines());
    return OkStatus();
  }
  TellOutput(*session, rank, message[1]);
  return OkStatus();
}

Status Controller::HandleOutputTaken(const control::PeerName& client,
                                     wire::OutputTaken::Reader taken) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            FindHeard(SessionId(taken.getSession()), client));
  session->last_heard = Deadline::Clock::now();
  session->output.Take(taken.getPosition());
  TellDropped(*session);
  return OkStatus();
}

void Controller::TellDropped(SessionEntry& session) {
  while (!session.output.dropped().empty()) {
    TellOutput(session, session.output.dropped().begin()->first, control::Frame());
  }
}

void Controller::TellOutput(SessionEntry& session, Rank rank, const control::Frame& lines) {
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto told) {
    auto output = told.initOutput();
    output.setSession(session.id.value);
    output.setRank(rank);
    output.setPosition(session.output.position());
    output.setDropped(session.output.TakeDropped(rank));
  })};
  if (lines.size() > 0) message.push_back(lines);
  Tell(session, message);
}

}  // namespace lockstep::controller
