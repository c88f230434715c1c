#include "services/controller/sessions/output_relay.h"

namespace lockstep::controller {
namespace {

constexpr size_t kMaxLinesBytes = size_t{256} << 10;

}  // namespace

Status OutputRelay::HandleOutput(Rank rank, wire::Output::Reader output,
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
  messenger_.TellOutput(*session, rank, message[1]);
  return OkStatus();
}

Status OutputRelay::HandleTaken(const control::PeerName& client, wire::OutputTaken::Reader taken) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            sessions_.FindHeard(SessionId(taken.getSession()), client));
  session->last_heard = tools_.clock.Now();
  session->output.Take(taken.getPosition());
  messenger_.TellDropped(*session);
  return OkStatus();
}

}  // namespace lockstep::controller
