#include "runtime/client/controller_query.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/client/endpoint_check.h"
#include "runtime/control/direct/direct_client_channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/protocol.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::client {
namespace {

// How often it is looked whether we were turned away, of which no message tells.
constexpr std::chrono::milliseconds kLook{20};

// Without an answer for so long, the endpoint is looked at: a controller that is starting now has
// its socket by then ...
constexpr std::chrono::milliseconds kStarting{800};
// ... and again, where one may be starting that takes longer.
constexpr std::chrono::milliseconds kLookAgain{2000};

bool IsReadable(int fd) {
  pollfd set = {fd, POLLIN, 0};
  return fd >= 0 && poll(&set, 1, 0) > 0;
}

}  // namespace

StatusOr<control::Message> AwaitFirstAnswer(control::ClientChannel& channel,
                                            const std::string& endpoint,
                                            std::chrono::milliseconds timeout, int cancel_fd) {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {&channel};
  const Deadline deadline = Deadline::After(timeout);
  const Deadline never = Deadline::After(timeout + kLookAgain);
  Deadline next_check = Deadline::After(std::min(kStarting, timeout / 2));
  Status found = OkStatus();  // by the last check, where one may be starting
  control::Message answer;
  const absl::Span<const int> descriptors(&cancel_fd, cancel_fd < 0 ? 0 : 1);
  while (true) {
    const bool come = waiter.Wait(channels, descriptors, Deadline::After(kLook).Earlier(deadline));
    if (come && channel.Receive(&answer)) break;
    if (IsReadable(cancel_fd)) return MakeStatus(StatusCode::kCancelled, "the wait was cancelled");
    const Status trouble = channel.trouble();
    if (trouble.code() == StatusCode::kPermissionDenied) return trouble;
    if (next_check.Expired()) {
      found = CheckEndpoint(endpoint, deadline, cancel_fd);
      if (!found.ok() && !MayBeStarting(endpoint, found)) return found;
      next_check = found.ok() ? never : Deadline::After(kLookAgain);
      continue;  // an answer may have come meanwhile
    }
    if (!deadline.Expired()) continue;
    if (!trouble.ok()) return trouble;
    if (!found.ok()) return found;
    return Unavailable("no controller answers at ", endpoint, " within ", timeout.count(),
                       " ms; is it running?");
  }
  if (answer.empty()) return Internal("the controller sent an empty message");
  LOCKSTEP_RETURN_IF_ERROR(
      control::CheckProtocol(answer[0], control::Protocol::kControllerToClient, endpoint));
  return answer;
}

StatusOr<std::unique_ptr<control::ClientChannel>> Connect(
    const std::string& endpoint, control::CredentialSource credentials,
    std::shared_ptr<control::ZmqContext> context) {
  if (auto door = control::FindDoor(context.get(), endpoint); door != nullptr) {
    return control::DirectClientChannel::Connect(std::move(door));
  }
  control::ZmqOptions options;
  options.credentials = std::move(credentials);
  return control::ZmqConnect(std::move(context), endpoint, options);
}

StatusOr<std::unique_ptr<control::ClientChannel>> Connect(
    const ControllerAddress& controller, std::shared_ptr<control::ZmqContext> context) {
  LOCKSTEP_ASSIGN_OR_RETURN(control::CredentialSource credentials,
                            control::CredentialsFrom(controller.key, controller.controller_key));
  return Connect(controller.endpoint, std::move(credentials), std::move(context));
}

StatusOr<control::Message> AskOnce(const ControllerAddress& controller,
                                   const control::Frame& question,
                                   std::chrono::milliseconds timeout, int cancel_fd) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto channel, Connect(controller, control::ZmqContext::Create()));
  LOCKSTEP_RETURN_IF_ERROR(channel->Send({question}));
  return AwaitFirstAnswer(*channel, controller.endpoint, timeout, cancel_fd);
}

Status CheckIsAnswer(wire::ControllerMessage::Reader reader) {
  switch (reader.which()) {
    case wire::ControllerMessage::REFUSED:
      return control::ReadError(reader.getRefused().getError()).ToStatus();
    case wire::ControllerMessage::SHUTDOWN:
      return Unavailable("the cluster is shutting down: ", control::ToString(reader.getShutdown()));
    default:
      return OkStatus();
  }
}

Status UnexpectedAnswer(std::string_view question, wire::ControllerMessage::Reader reader) {
  return Internal("the controller answered ", question, " with message kind ",
                  static_cast<int>(reader.which()));
}

}  // namespace lockstep::client
