#include "runtime/client/status_query.h"

#include "runtime/client/controller_query.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {

StatusOr<ClusterStatus> StatusQuery::Ask(std::chrono::milliseconds timeout) {
  if (channel_ == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(channel_, Connect(controller_, control::ZmqContext::Create()));
  }
  StatusOr<ClusterStatus> answer = AskOver(*channel_, timeout);
  if (!answer.ok()) channel_.reset();
  return answer;
}

StatusOr<ClusterStatus> StatusQuery::AskOver(control::ClientChannel& channel,
                                             std::chrono::milliseconds timeout) const {
  LOCKSTEP_RETURN_IF_ERROR(channel.Send({control::EncodeMessage<wire::ClientMessage>(
      [](wire::ClientMessage::Builder message) { message.setStatus(1); })}));
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            AwaitFirstAnswer(channel, controller_.endpoint, timeout));
  return ReadClusterStatus(answer);
}

}  // namespace lockstep::client
