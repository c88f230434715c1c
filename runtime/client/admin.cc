#include "runtime/client/admin.h"

#include <algorithm>

#include "runtime/base/deadline.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
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
  worker.metrics_endpoint = ToString(peer.getMetricsEndpoint());
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
  cluster.metrics_endpoint = ToString(reader.getMetricsEndpoint());
  for (auto worker : reader.getWorkers()) cluster.workers.push_back(ReadWorker(worker));
  for (auto session : reader.getSessions()) cluster.sessions.push_back(ReadSession(session));
  return cluster;
}

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
  ClusterStatus status;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [&](wire::ControllerMessage::Reader reader) {
        if (reader.isShutdown()) {
          return Unavailable("the cluster is shutting down: ", ToString(reader.getShutdown()));
        }
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
