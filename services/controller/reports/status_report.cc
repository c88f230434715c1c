#include "services/controller/reports/status_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "schemas/membership.capnp.h"
#include "schemas/session.capnp.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;

// How long the workers may take to report. They answer from a thread of their own, at once.
constexpr milliseconds kReportPatience{1000};

uint64_t Millis(Deadline::Clock::duration duration) {
  const auto millis = std::chrono::duration_cast<milliseconds>(duration).count();
  return static_cast<uint64_t>(std::max<int64_t>(millis, 0));
}

wire::WorkerStatus::State ToWire(Membership::State state) {
  switch (state) {
    case Membership::State::kMissing:
      return wire::WorkerStatus::State::MISSING;
    case Membership::State::kWaiting:
    case Membership::State::kJoining:
      return wire::WorkerStatus::State::JOINING;
    case Membership::State::kReady:
      return wire::WorkerStatus::State::READY;
    case Membership::State::kLost:
      return wire::WorkerStatus::State::LOST;
  }
  return wire::WorkerStatus::State::MISSING;
}

wire::SessionStatus::Path ToWire(MessagePath path) {
  switch (path) {
    case MessagePath::kSocket:
      return wire::SessionStatus::Path::SOCKET;
    case MessagePath::kRing:
      return wire::SessionStatus::Path::RING;
    case MessagePath::kDirect:
      return wire::SessionStatus::Path::DIRECT;
  }
  return wire::SessionStatus::Path::SOCKET;
}

void WriteReport(const control::Frame& frame, wire::WorkerStatus::Builder worker) {
  if (frame.size() == 0) return;
  // It was read before, when it came.
  (void)control::DecodeMessage<wire::LivenessMessage>(frame,
                                                      [&](wire::LivenessMessage::Reader message) {
                                                        if (message.isReport()) {
                                                          worker.setReport(message.getReport());
                                                        }
                                                        return OkStatus();
                                                      });
}

}  // namespace

bool StatusReport::IsStuck(Rank rank, const LastHeard& heard) const {
  return tools_.membership.member(rank).state == Membership::State::kReady &&
         command_watch_.IsStuck(heard.activity);
}

void StatusReport::UpdateMetrics() {
  if (tools_.options.metrics_endpoint.empty()) return;
  ClusterView view{tools_.membership, sessions_, tools_.membership.epoch(), order_.last()};
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    view.heard.push_back(liveness_.LastHeardOf(rank));
    view.stuck.push_back(IsStuck(rank, view.heard.back()));
  }
  metrics_.Observe(view);
}

Status StatusReport::Explain(const control::PeerName& client, uint64_t request) {
  LOCKSTEP_RETURN_IF_ERROR(inquiries_.CheckRoom(client));
  std::vector<bool> alive;
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    alive.push_back(tools_.membership.member(rank).state == Membership::State::kReady);
  }
  const uint64_t probe =
      inquiries_.Begin({client, request}, std::move(alive),
                       tools_.timers.After(static_cast<uint64_t>(kReportPatience.count())));
  liveness_.Probe(probe);
  return OkStatus();
}

void StatusReport::Send(const control::PeerName& client, uint64_t request,
                        const std::vector<control::Frame>& reports) {
  const Skew::Lateness lateness = metrics_.skew().Compared();
  const control::Frame frame = control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
    auto status = message.initClusterStatus();
    status.setRequest(request);
    status.setCluster(tools_.options.cluster);
    status.setBuild(kBuildVersion);
    status.setEpoch(tools_.membership.epoch().value);
    status.setPid(getpid());
    status.setUptimeMillis(Millis(tools_.clock.Now() - started_));
    status.setSequence(order_.last());
    status.setMetricsEndpoint(metrics_endpoint_);
    status.setComparedCollectives(lateness.compared);
    status.setReplacementHint(tools_.options.replacement_hint);
    WriteWorkers(status.initWorkers(static_cast<unsigned>(tools_.membership.size())), lateness,
                 reports);
    WriteSessions(status.initSessions(static_cast<unsigned>(sessions_.all().size())));
  });
  outbox_.ToClient(client, unread_.Charge(client, {frame}));
}

void StatusReport::WriteWorkers(capnp::List<wire::WorkerStatus>::Builder workers,
                                const Skew::Lateness& lateness,
                                const std::vector<control::Frame>& reports) const {
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    const Membership::Member& member = tools_.membership.member(rank);
    const LastHeard heard = liveness_.LastHeardOf(rank);
    auto worker = workers[static_cast<unsigned>(rank)];
    WritePeer(worker.initPeer(), rank, member);
    worker.setState(ToWire(member.state));
    worker.setBackend(member.backend);
    worker.setConnection(member.connection);
    worker.setByRing(worker_rings_.PathTo(member.peer) == MessagePath::kRing);
    worker.setByRelay(worker_tree_.IsByRelay(member.peer));
    control::WriteActivity(heard.activity, worker.initActivity());
    worker.setHeartbeatAgeMillis(static_cast<uint64_t>(heard.heartbeat_age.count()));
    // Of one that waits in its place it is the former one's.
    if (member.state == Membership::State::kLost) {
      worker.setReason(member.lost_because);
      worker.setMayLive(member.may_live);
    }
    worker.setStuck(IsStuck(rank, heard));
    worker.setLongestMillis(
        static_cast<uint64_t>(command_watch_.LongestBefore(heard.activity).count()));
    const Skew::Late& late = lateness.ranks[static_cast<size_t>(rank)];
    worker.setTimesLast(late.times);
    worker.setLateNanos(static_cast<uint64_t>(late.by.count()));
    if (!reports.empty()) WriteReport(reports[static_cast<size_t>(rank)], worker);
  }
}

void StatusReport::WriteSessions(capnp::List<wire::SessionStatus>::Builder sessions) const {
  const TimePoint now = tools_.clock.Now();
  unsigned i = 0;
  for (const auto& [id, session] : sessions_.all()) {
    auto entry = sessions[i++];
    entry.setSession(id.value);
    entry.setName(session.name);
    entry.setHost(session.host);
    entry.setPid(session.pid);
    entry.setNumGroups(static_cast<uint32_t>(session.num_groups));
    entry.setGeneration(session.generation.value);
    entry.setSentBytes(session.commands.sent_bytes());
    entry.setConsumedBytes(session.commands.sent_bytes() - session.commands.UnderWay());
    entry.setClosing(session.ending.has_value());
    if (session.ending.has_value() && session.ending->aborted) {
      entry.setAbortedMillis(static_cast<int64_t>(Millis(now - session.ending->aborted_at)));
    }
    if (!session.failure.ok()) control::WriteError(entry.initError(), session.FailureOnAllRanks());
    const bool detached = session.client.empty();
    entry.setBroken(!session.broken.ok());
    entry.setDetached(detached);
    entry.setPath(ToWire(client_rings_.PathTo(session.client)));
    entry.setClientLost(detached && session.client_lost);
    entry.setKeptMillis(detached ? Millis(session.kept_until.when() - now) : 0);
    entry.setAgeMillis(Millis(now - session.known_since));
    entry.setSilentMillis(Millis(now - session.last_heard));
    entry.setCommands(session.commands.next_command() - 1);
  }
}

}  // namespace lockstep::controller
