// What the controller tells of the cluster: who is there, what they do, and who is stuck.
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/message_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;

// How long the workers may take to report. They answer from a thread of their own, at once.
constexpr milliseconds kReportPatience{1000};

uint64_t MillisSince(Deadline::Clock::time_point then) {
  const auto passed = std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - then);
  return static_cast<uint64_t>(std::max<int64_t>(passed.count(), 0));
}
uint64_t MillisUntil(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline.when() - Deadline::Clock::now());
  return static_cast<uint64_t>(std::max<int64_t>(left.count(), 0));
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

bool Controller::IsStuck(const WorkerActivity& activity) const {
  return activity.kind == WorkerActivity::Kind::kCommand && activity.since >= options_.stuck_after;
}

void Controller::NoticeStuckWorkers() {
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const Membership::Member& member = membership_.member(rank);
    if (member.state != Membership::State::kReady) continue;
    const WorkerActivity activity = liveness_->LastHeardOf(rank).activity;
    FailIfOverdue(rank, activity);
    uint64_t& told = stuck_[static_cast<size_t>(rank)];
    if (!IsStuck(activity) || told == activity.launched) continue;
    told = activity.launched;
    log::Warn(log::OfRank(rank), "worker (", ProcessLabel(member.facts.host, member.facts.pid),
              ") is stuck, or slow: it executes ", activity.Describe());
  }
}

void Controller::ObserveMetrics() {
  ClusterView view{membership_, sessions_, epoch_, sequence_};
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    view.heard.push_back(liveness_->LastHeardOf(rank));
    view.stuck.push_back(membership_.member(rank).state == Membership::State::kReady &&
                         IsStuck(view.heard.back().activity));
  }
  metrics_.Observe(view);
}

void Controller::NoticeBrokenConnections() {
  // A worker that works off its queue waits between two batches, too, but never long for the same.
  constexpr int kLooks = 4;
  if (next_due_at_.Expired()) {
    due_ = std::exchange(next_due_, sequence_);
    next_due_at_ = Deadline::After(DeliveryTime());
  }
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    Waiting& waiting = waiting_[static_cast<size_t>(rank)];
    const WorkerActivity activity = liveness_->LastHeardOf(rank).activity;
    const bool waits = membership_.member(rank).state == Membership::State::kReady &&
                       activity.launched == activity.completed && activity.received < due_;
    const bool as_before =
        waiting.received == activity.received && waiting.launched == activity.launched;
    waiting = {activity.received, activity.launched, waits && as_before ? waiting.looks + 1 : 0};
    if (waiting.looks < kLooks) continue;
    const LivenessMonitor::Loss loss = liveness_->GiveUp(
        rank, "it waits for commands, but has not got batch " +
                  std::to_string(activity.received + 1) + ", sent more than " +
                  std::to_string(DeliveryTime().count()) + " ms ago: its connection is broken");
    HandleLost(rank, loss.reason, loss.last);
  }
}

void Controller::FailIfOverdue(Rank rank, const WorkerActivity& activity) {
  if (activity.kind != WorkerActivity::Kind::kCommand) return;
  SessionEntry* session = sessions_.Find(activity.session);
  // What a rank still executes of the time before a reset has failed already.
  if (session == nullptr || !session->failure.ok() || activity.command < session->reset_at) return;
  if (session->command_timeout.count() == 0 || activity.since < session->command_timeout) return;
  const Membership::Member& member = membership_.member(rank);
  control::RemoteError error = control::ErrorOf(DeadlineExceeded(
      "worker rank ", rank, " (", ProcessLabel(member.facts.host, member.facts.pid),
      ") has been executing it for ", activity.since.count(), " ms, longer than the ",
      session->command_timeout.count(), " ms that the session gives its commands"));
  error.rank = rank;
  error.command = activity.command;
  error.function = activity.what;
  FailSession(*session, error, activity.command);
}

control::RemoteError Controller::LateError(SessionId session, const std::vector<Rank>& late) const {
  control::RemoteError error;
  std::string text;
  for (const Rank rank : late) {
    const WorkerActivity activity = liveness_->LastHeardOf(rank).activity;
    const Membership::Member& member = membership_.member(rank);
    text += (text.empty() ? "" : "; ") + std::string("rank ") + std::to_string(rank) + " (" +
            ProcessLabel(member.facts.host, member.facts.pid) + ") executes " + activity.Describe();
    // Whoever executes something of his own is nearer to the cause than who waits in a collective.
    // Another session's command is no place in this one.
    if (error.rank >= 0 || activity.kind != WorkerActivity::Kind::kCommand) continue;
    if (activity.session != session) continue;
    error.rank = rank;
    error.session = session;
    error.command = activity.command;
    error.function = activity.what;
  }
  error.code = StatusCode::kDeadlineExceeded;
  error.message = "no answer in time: " + text + "; `lockstep why` tells more";
  return error;
}

Status Controller::Explain(const control::PeerName& client, uint64_t request) {
  LOCKSTEP_RETURN_IF_ERROR(inquiries_.CheckRoom(client));
  std::vector<bool> alive;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    alive.push_back(membership_.member(rank).state == Membership::State::kReady);
  }
  const uint64_t probe = inquiries_.Begin({client, request}, std::move(alive),
                                          Timer(static_cast<uint64_t>(kReportPatience.count())));
  liveness_->Probe(probe);
  return OkStatus();
}

void Controller::SendStatus(const control::PeerName& client, uint64_t request,
                            const std::vector<control::Frame>& reports) {
  SendLong(
      client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
        auto status = message.initClusterStatus();
        status.setRequest(request);
        status.setCluster(options_.cluster);
        status.setBuild(kBuildVersion);
        status.setEpoch(epoch_.value);
        status.setPid(getpid());
        status.setUptimeMillis(MillisSince(started_));
        status.setSequence(sequence_);
        status.setMetricsEndpoint(metrics_endpoint());
        const Skew::Lateness lateness = metrics_.skew().Compared();
        status.setComparedCollectives(lateness.compared);
        auto workers = status.initWorkers(static_cast<unsigned>(membership_.size()));
        for (Rank rank = 0; rank < membership_.size(); ++rank) {
          const Membership::Member& member = membership_.member(rank);
          const LastHeard heard = liveness_->LastHeardOf(rank);
          auto worker = workers[static_cast<unsigned>(rank)];
          WritePeer(worker.initPeer(), rank, member);
          worker.setState(ToWire(member.state));
          worker.setBackend(member.backend);
          worker.setConnection(member.connection);
          control::WriteActivity(heard.activity, worker.initActivity());
          worker.setHeartbeatAgeMillis(static_cast<uint64_t>(heard.heartbeat_age.count()));
          worker.setReason(member.lost_because);
          worker.setStuck(member.state == Membership::State::kReady && IsStuck(heard.activity));
          const Skew::Late& late = lateness.ranks[static_cast<size_t>(rank)];
          worker.setTimesLast(late.times);
          worker.setLateNanos(static_cast<uint64_t>(late.by.count()));
          if (!reports.empty()) WriteReport(reports[static_cast<size_t>(rank)], worker);
        }
        auto sessions = status.initSessions(static_cast<unsigned>(sessions_.all().size()));
        unsigned i = 0;
        for (const auto& [id, session] : sessions_.all()) {
          auto entry = sessions[i++];
          entry.setSession(id.value);
          entry.setName(session.name);
          entry.setHost(session.host);
          entry.setPid(session.pid);
          entry.setNumGroups(static_cast<uint32_t>(session.num_groups));
          entry.setGeneration(session.generation.value);
          entry.setSentBytes(session.sent_bytes);
          entry.setConsumedBytes(session.sent_bytes - session.UnderWay());
          entry.setClosing(session.ending.has_value());
          if (!session.failure.ok()) control::WriteError(entry.initError(), session.failure);
          const bool detached = session.client.empty();
          entry.setBroken(!session.broken.ok());
          entry.setDetached(detached);
          entry.setClientLost(detached && session.client_lost);
          entry.setKeptMillis(detached ? MillisUntil(session.kept_until) : 0);
          entry.setAgeMillis(MillisSince(session.known_since));
          entry.setSilentMillis(MillisSince(session.last_heard));
          entry.setCommands(session.next_command - 1);
        }
      })});
}

}  // namespace lockstep::controller
