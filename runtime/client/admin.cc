#include "runtime/client/admin.h"

#include <algorithm>

#include "runtime/base/deadline.h"
#include "runtime/client/cluster_status_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/session.capnp.h"

namespace lockstep {
namespace {

// Sends one message and waits for the controller's answer.
StatusOr<control::Message> Exchange(const std::string& endpoint, const control::Frame& question,
                                    std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel,
                            control::ZmqConnect(control::ZmqContext::Create(), endpoint));
  LOCKSTEP_RETURN_IF_ERROR(channel->Send({question}));
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel.get()};
  control::Message answer;
  if (!waiter.Wait(channels, {}, Deadline::After(timeout)) || !channel->Receive(&answer) ||
      answer.empty()) {
    return Unavailable("no controller answers at ", endpoint, " within ", timeout.count(),
                       " ms; is it running?");
  }
  return answer;
}

StatusOr<ClusterStatus> AskForStatus(const std::string& endpoint, const control::Frame& question,
                                     std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer, Exchange(endpoint, question, timeout));
  return client::ReadClusterStatus(answer);
}

}  // namespace

std::string_view Name(WorkerState state) {
  switch (state) {
    case WorkerState::kMissing:
      return "missing";
    case WorkerState::kJoining:
      return "joining";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kLost:
      return "lost";
  }
  return "unknown";
}

bool ClusterStatus::IsReady() const {
  return !workers.empty() &&
         std::all_of(workers.begin(), workers.end(), [](const WorkerStatus& worker) {
           return worker.state == WorkerState::kReady;
         });
}

StatusOr<ClusterStatus> GetClusterStatus(const std::string& endpoint,
                                         std::chrono::milliseconds timeout) {
  return AskForStatus(endpoint,
                      control::EncodeMessage<wire::ClientMessage>(
                          [](wire::ClientMessage::Builder message) { message.setStatus(1); }),
                      timeout);
}

StatusOr<ClusterStatus> ExplainCluster(const std::string& endpoint,
                                       std::chrono::milliseconds timeout) {
  return AskForStatus(endpoint,
                      control::EncodeMessage<wire::ClientMessage>(
                          [](wire::ClientMessage::Builder message) { message.setExplain(1); }),
                      timeout);
}

Status ShutdownCluster(const std::string& endpoint, const std::string& reason,
                       std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const control::Message answer,
      Exchange(endpoint,
               control::EncodeMessage<wire::ClientMessage>(
                   [&](wire::ClientMessage::Builder message) { message.setShutdown(reason); }),
               timeout));
  return control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [](wire::ControllerMessage::Reader reader) {
        if (reader.isShutdown()) return OkStatus();
        return Internal("the controller answered a shutdown request with message kind ",
                        static_cast<int>(reader.which()));
      });
}

}  // namespace lockstep
