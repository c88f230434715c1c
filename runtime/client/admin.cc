#include "runtime/client/admin.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "runtime/client/controller_query.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
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

std::vector<Rank> ClusterStatus::LostRanks() const {
  std::vector<Rank> ranks;
  for (const WorkerStatus& worker : workers) {
    if (worker.state == WorkerState::kLost) ranks.push_back(worker.rank);
  }
  return ranks;
}

const SessionStatus* ClusterStatus::EndedSessionOf(const WorkerStatus& worker) const {
  // What gives up does so by then, and has been heard of.
  constexpr std::chrono::seconds kGivesUp{1};
  const bool is_busy =
      worker.state == WorkerState::kReady && worker.activity.kind == WorkerActivity::Kind::kCommand;
  if (!is_busy) return nullptr;
  const auto found =
      std::find_if(sessions.begin(), sessions.end(), [&](const SessionStatus& session) {
        return session.session == worker.activity.session && session.aborted >= kGivesUp;
      });
  return found == sessions.end() ? nullptr : &*found;
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

Status EndSession(const ControllerAddress& controller, SessionId session, const std::string& reason,
                  std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller,
                                            control::EncodeMessage<wire::ClientMessage>(
                                                [&](wire::ClientMessage::Builder message) {
                                                  auto end = message.initEndSession();
                                                  end.setSession(session.value);
                                                  end.setRequest(1);
                                                  end.setReason(reason);
                                                }),
                                            timeout));
  return control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [](wire::ControllerMessage::Reader reader) {
        LOCKSTEP_RETURN_IF_ERROR(client::CheckIsAnswer(reader));
        if (!reader.isAnswer()) return client::UnexpectedAnswer("a session's end", reader);
        if (!reader.getAnswer().hasError()) return OkStatus();
        return control::ReadError(reader.getAnswer().getError()).ToStatus();
      });
}

}  // namespace lockstep

namespace lockstep::client {

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

std::string PathName(wire::SessionStatus::Path path) {
  switch (path) {
    case wire::SessionStatus::Path::SOCKET:
      return "socket";
    case wire::SessionStatus::Path::RING:
      return "ring";
    case wire::SessionStatus::Path::DIRECT:
      return "direct";
  }
  return "unknown";  // to a client of this version
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
  worker.by_ring = reader.getByRing();
  worker.by_relay = reader.getByRelay();
  worker.activity = control::ReadActivity(reader.getActivity());
  worker.heartbeat_age = std::chrono::milliseconds(reader.getHeartbeatAgeMillis());
  worker.reason = ToString(reader.getReason());
  worker.may_live = reader.getMayLive();
  worker.stuck = reader.getStuck();
  worker.longest_before = control::Millis(reader.getLongestMillis());
  worker.times_last = reader.getTimesLast();
  constexpr uint64_t kLongest = std::numeric_limits<int64_t>::max();
  worker.late_by =
      std::chrono::nanoseconds(static_cast<int64_t>(std::min(reader.getLateNanos(), kLongest)));
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
  if (reader.getAbortedMillis() >= 0) {
    session.aborted = control::Millis(static_cast<uint64_t>(reader.getAbortedMillis()));
  }
  session.generation = reader.getGeneration();
  session.commands = reader.getCommands();
  session.broken = reader.getBroken();
  session.detached = reader.getDetached();
  session.kept = std::chrono::milliseconds(reader.getKeptMillis());
  session.client_lost = reader.getClientLost();
  session.age = std::chrono::milliseconds(reader.getAgeMillis());
  session.silent = std::chrono::milliseconds(reader.getSilentMillis());
  session.path = PathName(reader.getPath());
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
  cluster.compared_collectives = reader.getComparedCollectives();
  cluster.metrics_endpoint = ToString(reader.getMetricsEndpoint());
  cluster.replacement_hint = ToString(reader.getReplacementHint());
  for (auto worker : reader.getWorkers()) cluster.workers.push_back(ReadWorker(worker));
  for (auto session : reader.getSessions()) cluster.sessions.push_back(ReadSession(session));
  return cluster;
}

}  // namespace

StatusOr<ClusterStatus> ReadClusterStatus(const control::Message& answer) {
  if (answer.empty()) return Internal("the controller sent an empty message");
  ClusterStatus status;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [&](wire::ControllerMessage::Reader reader) {
        LOCKSTEP_RETURN_IF_ERROR(CheckIsAnswer(reader));
        if (!reader.isClusterStatus()) return UnexpectedAnswer("a status request", reader);
        status = ReadCluster(reader.getClusterStatus());
        // They are looked up by their rank.
        for (size_t i = 0; i < status.workers.size(); ++i) {
          if (status.workers[i].rank == static_cast<Rank>(i)) continue;
          return Internal("the controller's status tells of rank ", status.workers[i].rank,
                          " where rank ", i, " was expected");
        }
        return OkStatus();
      }));
  return status;
}

}  // namespace lockstep::client

namespace lockstep {

namespace client {
namespace {

RankRegisters ReadRank(wire::RankRegisters::Reader reader) {
  RankRegisters rank;
  rank.rank = reader.getRank();
  rank.why = control::ToString(reader.getWhy());
  if (!reader.hasHeld()) return rank;
  auto held = reader.getHeld();
  rank.activity = control::ReadActivity(held.getActivity());
  if (held.getBusy()) {
    const bool is_known = rank.activity.kind != WorkerActivity::Kind::kNone;
    rank.why = is_known ? "it is busy with " + rank.activity.Describe()
                        : "it is busy, and executes no command: it may be connecting";
  }
  rank.sessions = control::ReadHoldings(held);
  return rank;
}

}  // namespace

StatusOr<std::vector<RankRegisters>> ReadRegisterListing(const control::Message& answer) {
  if (answer.empty()) return Internal("the controller sent an empty message");
  std::vector<RankRegisters> ranks;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [&](wire::ControllerMessage::Reader reader) {
        LOCKSTEP_RETURN_IF_ERROR(CheckIsAnswer(reader));
        if (!reader.isRegisterListing()) {
          return UnexpectedAnswer("a question about registers", reader);
        }
        for (auto rank : reader.getRegisterListing().getRanks()) ranks.push_back(ReadRank(rank));
        return OkStatus();
      }));
  return ranks;
}

}  // namespace client

StatusOr<std::vector<RankRegisters>> ListRegisters(const ControllerAddress& controller,
                                                   const RegisterQuestion& question,
                                                   std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller,
                                            control::EncodeMessage<wire::ClientMessage>(
                                                [&](wire::ClientMessage::Builder message) {
                                                  auto list = message.initListRegisters();
                                                  list.setRequest(1);
                                                  list.setRank(question.rank);
                                                  list.setSession(question.session.value);
                                                  list.setMost(question.most);
                                                }),
                                            timeout));
  return client::ReadRegisterListing(answer);
}

}  // namespace lockstep
