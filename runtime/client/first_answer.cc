#include "runtime/client/first_answer.h"

#include "runtime/base/deadline.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::client {
namespace {

// How often it is looked whether we were turned away, of which no message tells.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

StatusOr<control::Message> AwaitFirstAnswer(control::ClientChannel& channel,
                                            const std::string& endpoint,
                                            std::chrono::milliseconds timeout) {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {&channel};
  const Deadline deadline = Deadline::After(timeout);
  control::Message answer;
  while (true) {
    const bool come = waiter.Wait(channels, {}, Deadline::After(kLook).Earlier(deadline));
    if (come && channel.Receive(&answer)) break;
    const Status trouble = channel.trouble();
    if (trouble.code() == StatusCode::kPermissionDenied) return trouble;
    if (!deadline.Expired()) continue;
    if (!trouble.ok()) return trouble;
    return Unavailable("no controller answers at ", endpoint, " within ", timeout.count(),
                       " ms; is it running?");
  }
  if (answer.empty()) return Internal("the controller sent an empty message");
  return answer;
}

}  // namespace lockstep::client
