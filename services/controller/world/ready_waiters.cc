#include "services/controller/world/ready_waiters.h"

#include <algorithm>
#include <utility>

namespace lockstep::controller {
namespace {

// One per thread of the client that waits for the workers.
constexpr ptrdiff_t kMostOfSession = 256;

}  // namespace

Status ReadyWaiters::Handle(const control::PeerName& client, wire::AwaitWorkers::Reader await) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOpen(SessionId(await.getSession()), client));
  session->last_heard = tools_.clock.Now();
  const RequestId request(await.getRequest());
  const auto count = std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.session == session->id;
  });
  if (count >= kMostOfSession) {
    messenger_.Answer(
        client, session->id, request,
        control::ErrorOf(ResourceExhausted("session ", session->id, " waits for the workers ",
                                           count, " times already")));
    return OkStatus();
  }
  waiting_.push_back({client, session->id, request, tools_.timers.After(await.getTimeoutMillis())});
  if (tools_.membership.AllReady()) AnswerAll(OkStatus());
  return OkStatus();
}

void ReadyWaiters::AnswerAll(const Status& status) {
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    messenger_.Answer(waiting.client, waiting.session, waiting.request, control::ErrorOf(status));
  }
}

Deadline ReadyWaiters::Expire(TimePoint now, Deadline next) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.deadline.when() > now) {
      next = next.Earlier(waiting.deadline);
      return false;
    }
    messenger_.Answer(waiting.client, waiting.session, waiting.request,
                      control::ErrorOf(tools_.membership.Whole()));
    return true;
  });
  return next;
}

}  // namespace lockstep::controller
