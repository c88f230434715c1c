#include "runtime/client/admin.h"

#include <algorithm>

#include "runtime/client/first_answer.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/session.capnp.h"

namespace lockstep {
namespace {

using control::ToString;

WorkerState StateOf(wire::WorkerStatus::State state) {
  switch (state) {
    case wire::WorkerStatus::State::MISSING:
      return WorkerState::kMissing;
    case wire::WorkerStatus::State::JOINING:
      return WorkerState::kJoining;
    case wire::WorkerStatus::State::READY:
      return WorkerState::kReady;
    case wire::WorkerStatus::State::LOST:
      return WorkerState::kLost;
  }
  return WorkerState::kMissing;
}

WorkerStatus ReadWorker(wire::WorkerStatus::Reader reader) {
  WorkerStatus worker;
  auto peer = reader.getPeer();
  worker.rank = peer.getRank();
  worker.host = ToString(peer.getHost().getName());
  worker.pid = peer.getPid();
  worker.device = ToString(peer.getDevice());
  worker.state = StateOf(reader.getState());
  worker.backend = ToString(reader.getBackend());
  worker.connection = ToString(reader.getConnection());
  worker.activity = control::ReadActivity(reader.getActivity());
  worker.heartbeat_age = std::chrono::milliseconds(reader.getHeartbeatAgeMillis());
  worker.reason = ToString(reader.getReason());
  worker.stuck = reader.getStuck();
  if (!reader.hasReport()) return worker;
  // Younger than the last heartbeat.
  auto report = reader.getReport();
  worker.reported = true;
  worker.activity = control::ReadActivity(report.getActivity());
  for (auto frame : report.getStack()) worker.stack.push_back(ToString(frame));
  worker.no_stack = ToString(report.getNoStack());
  return worker;
}

SessionStatus ReadSession(wire::SessionStatus::Reader reader) {
  SessionStatus session;
  session.session = SessionId(reader.getSession());
  session.name = ToString(reader.getName());
  session.host = ToString(reader.getHost());
  session.pid = reader.getPid();
  session.num_groups = static_cast<int>(reader.getNumGroups());
  session.sent_bytes = reader.getSentBytes();
  session.consumed_bytes = reader.getConsumedBytes();
  session.closing = reader.getClosing();
  if (reader.hasError()) {
    session.error = Message(control::ReadError(reader.getError()).ToStatus());
  }
  return session;
}

ClusterStatus ReadCluster(wire::ClusterStatus::Reader reader) {
  ClusterStatus cluster;
  cluster.cluster = ToString(reader.getCluster());
  cluster.build = ToString(reader.getBuild());
  cluster.epoch = Epoch(reader.getEpoch());
  cluster.controller_pid = reader.getPid();
  cluster.uptime = std::chrono::milliseconds(reader.getUptimeMillis());
  cluster.batches = reader.getSequence();
  for (auto worker : reader.getWorkers()) cluster.workers.push_back(ReadWorker(worker));
  for (auto session : reader.getSessions()) cluster.sessions.push_back(ReadSession(session));
  return cluster;
}

// Sends one message and waits for the controller's answer.
StatusOr<control::Message> Exchange(const ControllerAddress& controller,
                                    const control::Frame& question,
                                    std::chrono::milliseconds timeout) {
  control::ZmqOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(options.credentials,
                            control::CredentialsFrom(controller.key, controller.controller_key));
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, control::ZmqConnect(control::ZmqContext::Create(),
                                                              controller.endpoint, options));
  LOCKSTEP_RETURN_IF_ERROR(channel->Send({question}));
  return client::AwaitFirstAnswer(*channel, controller.endpoint, timeout);
}

// What a controller says to whoever may not ask that.
Status ReadRefusal(wire::ControllerMessage::Reader reader) {
  return control::ReadError(reader.getRefused().getError()).ToStatus();
}

StatusOr<ClusterStatus> AskForStatus(const ControllerAddress& controller,
                                     const control::Frame& question,
                                     std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer, Exchange(controller, question, timeout));
  ClusterStatus status;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [&](wire::ControllerMessage::Reader reader) {
        if (reader.isShutdown()) {
          return Unavailable("the cluster is shutting down: ", ToString(reader.getShutdown()));
        }
        if (reader.isRefused()) return ReadRefusal(reader);
        if (!reader.isClusterStatus()) {
          return Internal("the controller answered a status request with message kind ",
                          static_cast<int>(reader.which()));
        }
        status = ReadCluster(reader.getClusterStatus());
        return OkStatus();
      }));
  return status;
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
                                         std::chrono::milliseconds timeout) {
  return AskForStatus(controller,
                      control::EncodeMessage<wire::ClientMessage>(
                          [](wire::ClientMessage::Builder message) { message.setStatus(1); }),
                      timeout);
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
  LOCKSTEP_ASSIGN_OR_RETURN(
      const control::Message answer,
      Exchange(controller,
               control::EncodeMessage<wire::ClientMessage>(
                   [&](wire::ClientMessage::Builder message) { message.setShutdown(reason); }),
               timeout));
  return control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [](wire::ControllerMessage::Reader reader) {
        if (reader.isShutdown()) return OkStatus();
        if (reader.isRefused()) return ReadRefusal(reader);
        return Internal("the controller answered a shutdown request with message kind ",
                        static_cast<int>(reader.which()));
      });
}

}  // namespace lockstep
