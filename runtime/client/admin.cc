#include "runtime/client/admin.h"

#include <algorithm>

#include "runtime/client/cluster_status_codec.h"
#include "runtime/client/controller_answer.h"
#include "runtime/client/first_answer.h"
#include "runtime/control/message_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep {
namespace {

StatusOr<ClusterStatus> AskForStatus(const ControllerAddress& controller,
                                     const control::Frame& question,
                                     std::chrono::milliseconds timeout, int cancel_fd = -1) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller, question, timeout, cancel_fd));
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

StatusOr<ClusterStatus> GetClusterStatus(const ControllerAddress& controller,
                                         std::chrono::milliseconds timeout, int cancel_fd) {
  return AskForStatus(controller,
                      control::EncodeMessage<wire::ClientMessage>(
                          [](wire::ClientMessage::Builder message) { message.setStatus(1); }),
                      timeout, cancel_fd);
}

StatusOr<ClusterStatus> ExplainCluster(const ControllerAddress& controller,
                                       std::chrono::milliseconds timeout) {
  return AskForStatus(controller,
                      control::EncodeMessage<wire::ClientMessage>(
                          [](wire::ClientMessage::Builder message) { message.setExplain(1); }),
                      timeout);
}

Status ShutdownCluster(const ControllerAddress& controller, const std::string& reason,
                       std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller,
                                            control::EncodeMessage<wire::ClientMessage>(
                                                [&](wire::ClientMessage::Builder message) {
                                                  message.setShutdown(reason);
                                                }),
                                            timeout));
  return control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [](wire::ControllerMessage::Reader reader) {
        if (reader.isShutdown()) return OkStatus();
        LOCKSTEP_RETURN_IF_ERROR(client::CheckIsAnswer(reader));
        return client::UnexpectedAnswer("a shutdown request", reader);
      });
}

}  // namespace lockstep
