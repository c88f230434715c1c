#include "services/controller/liveness.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/trace/event.h"

namespace lockstep::controller {
namespace {

// How the process of a worker ended, for people. Not OK even with exit code 0: it was not asked to.
std::string Describe(int pid, const std::optional<WatchedProcess>& process) {
  const std::string name = "its process " + std::to_string(pid) + " ";
  const ExitStatus status =
      process.has_value() ? process->HowItEnded() : ExitStatus{.known = false};
  return name + (status.known ? status.Describe() : "has ended");
}

}  // namespace

LivenessMonitor::LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers,
                                 Options options, OnLost on_lost, OnReport on_report,
                                 OnHeartbeat on_heartbeat, OnFetched on_fetched)
    : options_(options),
      on_lost_(std::move(on_lost)),
      on_report_(std::move(on_report)),
      on_heartbeat_(std::move(on_heartbeat)),
      on_fetched_(std::move(on_fetched)),
      channel_(std::move(channel)),
      workers_(static_cast<size_t>(workers)),
      exchanges_(workers),
      thread_([this] { Run(); }) {}

LivenessMonitor::~LivenessMonitor() { Stop(); }

void LivenessMonitor::Stop() {
  stopping_ = true;
  wake_up_.Signal();
  if (thread_.joinable()) thread_.join();
}

LastHeard LivenessMonitor::Watched::Last() const {
  return {
      page == nullptr ? activity : page->Now(), page != nullptr,
      std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - last_heard)};
}

WatchId LivenessMonitor::Watch(Rank rank, const std::string& host_id, int pid,
                               const std::string& activity) {
  // Elsewhere, and where /dev/shm is not shared, there is none: then heartbeats must do.
  auto page = control::ActivityPage::Open(activity);
  std::lock_guard lock(mutex_);
  Watched& watched = workers_[static_cast<size_t>(rank)];
  watched = Watched();
  exchanges_.Forget(rank);
  watched.watching = true;
  watched.id = last_watch_ = WatchId(last_watch_.value + 1);
  watched.last_heard = Deadline::Clock::now();
  watched.pid = pid;
  if (page.ok()) watched.page = *std::move(page);
  if (host_id == ThisHost().id && pid != getpid()) {
    // Where the kernel cannot (an old one), heartbeats must do.
    StatusOr<WatchedProcess> process = WatchedProcess::Watch(pid);
    watched.had_ended = process.status().code() == StatusCode::kNotFound;
    if (process.ok()) watched.process = *std::move(process);
  }
  wake_up_.Signal();
  return watched.id;
}

void LivenessMonitor::NoteAlive(Rank rank) {
  std::lock_guard lock(mutex_);
  workers_[static_cast<size_t>(rank)].last_heard = Deadline::Clock::now();
}

void LivenessMonitor::ExpectHeartbeats(Rank rank) {
  std::lock_guard lock(mutex_);
  Watched& watched = workers_[static_cast<size_t>(rank)];
  watched.welcome = true;
  watched.last_heard = Deadline::Clock::now();
}

void LivenessMonitor::Forget(Rank rank) {
  std::lock_guard lock(mutex_);
  exchanges_.Forget(rank);
  workers_[static_cast<size_t>(rank)] = Watched();
}

std::vector<LivenessMonitor::Loss> LivenessMonitor::TakeEnded() {
  std::vector<Loss> losses;
  std::lock_guard lock(mutex_);
  for (Rank rank = 0; rank < static_cast<Rank>(workers_.size()); ++rank) {
    Watched& watched = workers_[static_cast<size_t>(rank)];
    if (!watched.watching || !watched.HasEnded()) continue;
    losses.push_back(Lose(rank, Describe(watched.pid, watched.process)));
  }
  return losses;
}

LivenessMonitor::Loss LivenessMonitor::GiveUp(Rank rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  return Lose(rank, reason);
}

LivenessMonitor::Loss LivenessMonitor::Lose(Rank rank, const std::string& reason) {
  Watched& watched = workers_[static_cast<size_t>(rank)];
  const Loss loss{rank, watched.id, reason, watched.Last()};
  exchanges_.Forget(rank);
  watched.activity = loss.last.activity;
  watched.page.reset();
  watched.process.reset();
  watched.watching = false;
  watched.lost_because = reason;
  return loss;
}

void LivenessMonitor::Abort(SessionId session, Generation generation, uint64_t from_command,
                            const control::RemoteError& cause) {
  control::Frame frame =
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto abort = message.initAbort();
        abort.setSession(session.value);
        abort.setGeneration(generation.value);
        abort.setFromCommand(from_command);
        control::WriteError(abort.initCause(), cause);
      });
  Tell(std::move(frame));
}

void LivenessMonitor::BreakWorld(Epoch epoch) {
  // Whoever has yet to say its first word here hears it with the first answer.
  broken_ = epoch.value;
  Tell(control::EncodeMessage<wire::LivenessMessage>(
      [&](wire::LivenessMessage::Builder message) { message.setBroken(epoch.value); }));
}

void LivenessMonitor::Probe(uint64_t probe) {
  Tell(control::EncodeMessage<wire::LivenessMessage>(
      [&](wire::LivenessMessage::Builder message) { message.setProbe(probe); }));
}

void LivenessMonitor::AskRegisters(uint64_t probe, Rank rank, SessionId session, uint32_t most) {
  Tell(control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
    auto question = message.initAskRegisters();
    question.setProbe(probe);
    question.setRank(rank);
    question.setSession(session.value);
    question.setMost(most);
  }));
}

void LivenessMonitor::Tell(control::Frame frame, std::optional<Rank> only) {
  std::lock_guard lock(mutex_);
  queued_.push_back({std::move(frame), only});
  wake_up_.Signal();
}

LastHeard LivenessMonitor::LastHeardOf(Rank rank) const {
  std::lock_guard lock(mutex_);
  const Watched& watched = workers_[static_cast<size_t>(rank)];
  return watched.watching ? watched.Last() : LastHeard{watched.activity};
}

void LivenessMonitor::Run() {
  last_look_ = Deadline::Clock::now();
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  auto next_beacon = Deadline::Clock::now();
  while (!stopping_) {
    std::vector<int> descriptors = {wake_up_.fd()};
    {
      std::lock_guard lock(mutex_);
      for (const Watched& watched : workers_) {
        if (watched.process.has_value()) descriptors.push_back(watched.process->fd());
      }
    }
    waiter.Wait(channels, descriptors, Deadline::At(std::min(next_beacon, next_loss_)));
    wake_up_.Clear();
    ReceiveAll();
    SendQueued();
    if (greet_ || Deadline::Clock::now() >= next_beacon) {
      greet_ = false;
      std::vector<control::PeerName> peers;
      {
        std::lock_guard lock(mutex_);
        peers = Peers();
      }
      SendBeacon(peers);
      next_beacon = Deadline::Clock::now() + options_.heartbeat_interval;
    }
    FindLost();
  }
  SendQueued();
}

void LivenessMonitor::ReceiveAll() {
  control::PeerName from;
  control::Message message;
  while (channel_->Receive(&from, &message)) {
    if (message.empty()) continue;
    const int64_t received = trace::Now();
    // What cannot be read is dropped: a worker that only sends such is lost soon enough.
    (void)control::DecodeMessage<wire::LivenessMessage>(
        message[0], [&](wire::LivenessMessage::Reader reader) {
          if (reader.isHeartbeat()) HandleHeartbeat(from, reader.getHeartbeat());
          if (reader.isReport()) HandleReport(reader.getReport(), message[0]);
          if (reader.isHeldRegisters()) HandleReport(reader.getHeldRegisters(), message[0]);
          if (reader.isExchange()) HandleExchange(from, reader.getExchange());
          if (reader.isTrace()) HandleTrace(from, reader.getTrace(), message, received);
          return OkStatus();
        });
  }
}

void LivenessMonitor::HandleHeartbeat(const control::PeerName& from,
                                      wire::Heartbeat::Reader heartbeat) {
  // A worker of an earlier controller at this endpoint. It must not take the place of this one's
  // worker of the same rank, and wants to know that its own controller is no more.
  if (heartbeat.getController() != options_.controller.value) return SendBeacon({from});
  std::lock_guard lock(mutex_);
  const Rank rank = heartbeat.getRank();
  if (rank < 0 || rank >= static_cast<Rank>(workers_.size())) return;
  Watched& watched = workers_[static_cast<size_t>(rank)];
  // It lives after all, but its sessions have failed without it, and its rank may be another's.
  if (!watched.watching || watched.id.value != heartbeat.getWatch()) {
    const bool is_last = watched.id.value == heartbeat.getWatch();
    return Dismiss(from, is_last && !watched.lost_because.empty() ? watched.lost_because
                                                                  : "another has its rank");
  }
  if (watched.peer != from) greet_ = true;
  watched.peer = from;
  watched.last_heard = Deadline::Clock::now();
  watched.activity = control::ReadActivity(heartbeat.getActivity());
  if (on_heartbeat_) on_heartbeat_(rank, heartbeat);
}

template <typename Reader>
void LivenessMonitor::HandleReport(Reader report, const control::Frame& frame) {
  const Rank rank = report.getRank();
  if (report.getController() != options_.controller.value || rank < 0 ||
      rank >= static_cast<Rank>(workers_.size())) {
    return;
  }
  {
    std::lock_guard lock(mutex_);
    Watched& watched = workers_[static_cast<size_t>(rank)];
    if (!watched.watching || watched.id.value != report.getWatch()) return;
    watched.last_heard = Deadline::Clock::now();
    watched.activity = control::ReadActivity(report.getActivity());
  }
  on_report_({report.getProbe(), rank, frame});
}

void LivenessMonitor::HandleTrace(const control::PeerName& from, wire::TraceOrder::Reader order,
                                  const control::Message& message, int64_t received) {
  // Answered here, so that nothing but the way lies between the two times.
  if (order.isClock()) {
    const int64_t asked = order.getClock().getAsked();
    (void)channel_->Send(
        {&from, 1},
        {control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder answer) {
          auto clock = answer.initTrace().initClock();
          clock.setAsked(asked);
          clock.setReceived(received);
          clock.setAnswered(trace::Now());
        })});
    return;
  }
  const Rank rank = order.getRank();
  if (!order.isFetched() || !on_fetched_ || order.getController() != options_.controller.value ||
      rank < 0 || rank >= static_cast<Rank>(workers_.size())) {
    return;
  }
  {
    std::lock_guard lock(mutex_);
    Watched& watched = workers_[static_cast<size_t>(rank)];
    if (!watched.watching || watched.id.value != order.getWatch()) return;
    watched.last_heard = Deadline::Clock::now();
  }
  on_fetched_({rank, order.getTrace(), order.getRequest(), control::ToString(order.getFetched()),
               message.size() > 1 ? message[1] : control::Frame()});
}

std::vector<control::PeerName> LivenessMonitor::Peers() const {
  std::vector<control::PeerName> peers;
  for (const Watched& watched : workers_) {
    if (watched.watching && !watched.peer.empty()) peers.push_back(watched.peer);
  }
  return peers;
}

void LivenessMonitor::HandleExchange(const control::PeerName& from,
                                     wire::Exchange::Reader exchange) {
  std::vector<std::pair<control::PeerName, Exchanges::Answer>> answers;
  {
    std::lock_guard lock(mutex_);
    const Rank rank = exchange.getRank();
    if (exchange.getController() != options_.controller.value || rank < 0 ||
        rank >= static_cast<Rank>(workers_.size())) {
      return;
    }
    Watched& watched = workers_[static_cast<size_t>(rank)];
    if (!watched.watching || watched.id.value != exchange.getWatch()) return;
    watched.peer = from;
    for (Exchanges::Answer& answer : exchanges_.Take(ReadOffer(exchange))) {
      const control::PeerName peer = workers_[static_cast<size_t>(answer.to)].peer;
      if (!peer.empty()) answers.emplace_back(peer, std::move(answer));
    }
  }
  for (const auto& [peer, answer] : answers) {
    (void)channel_->Send({&peer, 1}, {ExchangedFrame(answer)});
  }
}

void LivenessMonitor::SendQueued() {
  std::vector<std::pair<std::vector<control::PeerName>, control::Frame>> messages;
  {
    std::lock_guard lock(mutex_);
    for (Queued& queued : std::exchange(queued_, {})) {
      std::vector<control::PeerName> peers;
      if (!queued.only.has_value()) {
        peers = Peers();
      } else if (const Watched& watched = workers_[static_cast<size_t>(*queued.only)];
                 watched.watching && !watched.peer.empty()) {
        peers = {watched.peer};
      }
      messages.emplace_back(std::move(peers), std::move(queued.frame));
    }
  }
  // A worker that cannot be reached is lost, which FindLost notices.
  for (const auto& [peers, frame] : messages) (void)channel_->Send(peers, {frame});
}

void LivenessMonitor::SendBeacon(const std::vector<control::PeerName>& peers) {
  const control::Frame frame =
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto heartbeat = message.initHeartbeat();
        heartbeat.setRank(-1);
        heartbeat.setController(options_.controller.value);
        heartbeat.setBroken(broken_);
      });
  (void)channel_->Send(peers, {frame});
}

void LivenessMonitor::Dismiss(const control::PeerName& worker, const std::string& why) {
  (void)channel_->Send({&worker, 1},
                       {control::EncodeMessage<wire::LivenessMessage>(
                           [&](wire::LivenessMessage::Builder m) { m.setDismissed(why); })});
}

void LivenessMonitor::FindLost() {
  // Held while it is told, so that whoever finds nobody with TakeEnded() has been told of all.
  std::lock_guard lock(mutex_);
  const auto now = Deadline::Clock::now();
  // This thread looks at least once per interval. If it could not (its process was stopped, or the
  // machine was), the workers' heartbeats wait to be read: that time is not their silence.
  const auto gap = now - std::exchange(last_look_, now);
  if (gap > 2 * options_.heartbeat_interval) {
    for (Watched& watched : workers_) watched.last_heard = std::min(now, watched.last_heard + gap);
  }
  next_loss_ = now + options_.heartbeat_interval;
  for (size_t i = 0; i < workers_.size(); ++i) {
    Watched& watched = workers_[i];
    if (!watched.watching) continue;
    const auto patience = watched.welcome ? options_.worker_timeout : options_.joining_timeout;
    std::string reason;
    if (watched.HasEnded()) {
      reason = Describe(watched.pid, watched.process);
    } else if (now - watched.last_heard >= patience) {
      const auto silence =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - watched.last_heard);
      reason = "no heartbeat for " + std::to_string(silence.count()) + " ms";
      if (watched.process.has_value() && watched.process->IsStopped()) {
        reason += "; its process " + std::to_string(watched.pid) + " is stopped";
      }
    } else {
      next_loss_ = std::min(next_loss_, watched.last_heard + patience);
      continue;
    }
    on_lost_(Lose(static_cast<Rank>(i), reason));
  }
}

}  // namespace lockstep::controller
