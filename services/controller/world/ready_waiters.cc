#include "services/controller/world/ready_waiters.h"

#include <algorithm>
#include <utility>

namespace lockstep::controller {
namespace {

// One per thread of the client that waits for the workers.
constexpr ptrdiff_t kMostOfSession = 256;

}  // namespace

void ReadyWaiters::Handle(const SessionEntry& session, wire::AwaitWorkers::Reader await) {
  const RequestId request(await.getRequest());
  const auto count = std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.session == session.id;
  });
  if (count >= kMostOfSession) {
    return messenger_.Answer(
        session.client, session.id, request,
        control::ErrorOf(ResourceExhausted("session ", session.id, " waits for the workers ", count,
                                           " times already")));
  }
  waiting_.push_back(
      {session.client, session.id, request, tools_.timers.After(await.getTimeoutMillis())});
  if (tools_.membership.AllReady()) AnswerAll(OkStatus());
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
