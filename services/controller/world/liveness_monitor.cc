#include "services/controller/world/liveness_monitor.h"

#include <algorithm>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "runtime/trace/event.h"

namespace lockstep::controller {
namespace {

// While heartbeats come without a pause, lost workers are still looked for.
constexpr std::chrono::milliseconds kFindAtLeastEvery{5};

}  // namespace

LivenessMonitor::LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers,
                                 const Options& options, OnLost on_lost, OnReport on_report,
                                 OnHeartbeat on_heartbeat, OnFetched on_fetched)
    : options_(options),
      on_lost_(std::move(on_lost)),
      on_report_(std::move(on_report)),
      on_heartbeat_(std::move(on_heartbeat)),
      on_fetched_(std::move(on_fetched)),
      channel_(std::move(channel)),
      workers_(workers,
               {options.heartbeat_interval, options.joining_timeout, options.worker_timeout}),
      exchanges_(workers),
      thread_([this] { Run(); }) {}

LivenessMonitor::~LivenessMonitor() { Stop(); }

void LivenessMonitor::Stop() {
  stopping_ = true;
  wake_up_.Signal();
  if (thread_.joinable()) thread_.join();
}

WatchId LivenessMonitor::Watch(Rank rank, const std::string& host_id, int pid,
                               const std::string& activity) {
  WatchedWorkers::Signs signs = WatchedWorkers::FindSigns(host_id, pid, activity);
  std::lock_guard lock(mutex_);
  exchanges_.Forget(rank);
  const WatchId watch = workers_.Watch(rank, std::move(signs), Deadline::Clock::now());
  wake_up_.Signal();
  return watch;
}

void LivenessMonitor::NoteAlive(Rank rank) {
  std::lock_guard lock(mutex_);
  workers_.NoteAlive(rank, Deadline::Clock::now());
}

void LivenessMonitor::ExpectHeartbeats(Rank rank) {
  std::lock_guard lock(mutex_);
  workers_.Welcome(rank, Deadline::Clock::now());
}

void LivenessMonitor::Forget(Rank rank) {
  std::lock_guard lock(mutex_);
  exchanges_.Forget(rank);
  workers_.Forget(rank);
}

std::vector<WorkerLoss> LivenessMonitor::TakeEnded() {
  std::lock_guard lock(mutex_);
  std::vector<WorkerLoss> losses = workers_.TakeEnded(Deadline::Clock::now());
  for (const WorkerLoss& loss : losses) exchanges_.Forget(loss.rank);
  return losses;
}

std::vector<WorkerLoss> LivenessMonitor::TakeLosses() {
  std::vector<WorkerLoss> losses = TakeEnded();
  std::lock_guard lock(mutex_);
  losses.insert(losses.end(), losses_.begin(), losses_.end());
  losses_.clear();
  return losses;
}

WorkerLoss LivenessMonitor::GiveUp(Rank rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  exchanges_.Forget(rank);
  return workers_.Lose(rank, reason, Deadline::Clock::now());
}

void LivenessMonitor::Abort(SessionId session, Generation generation, uint64_t from_command,
                            const control::RemoteError& cause, std::optional<Rank> only) {
  control::Frame frame =
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto abort = message.initAbort();
        abort.setSession(session.value);
        abort.setGeneration(generation.value);
        abort.setFromCommand(from_command);
        control::WriteError(abort.initCause(), cause);
      });
  Tell(std::move(frame), only);
}

void LivenessMonitor::BreakWorld(Epoch epoch) {
  // A worker that has yet to say its first word here hears it with the first answer.
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
  return workers_.LastHeardOf(rank, Deadline::Clock::now());
}

void LivenessMonitor::Run() {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  const int descriptors[] = {wake_up_.fd(), workers_.ended_fd()};
  auto next_beacon = Deadline::Clock::now();
  auto next_find = next_beacon;
  while (!stopping_) {
    auto next = next_beacon;
    {
      std::lock_guard lock(mutex_);
      next = std::min(next, workers_.next_look());
    }
    waiter.Wait(channels, descriptors, Deadline::At(next));
    wake_up_.Clear();
    const bool has_heard = ReceiveAll();
    SendQueued();
    if (greet_ || Deadline::Clock::now() >= next_beacon) {
      greet_ = false;
      std::vector<control::PeerName> peers;
      {
        std::lock_guard lock(mutex_);
        peers = workers_.Peers();
      }
      SendBeacon(peers);
      next_beacon = Deadline::Clock::now() + options_.heartbeat_interval;
    }
    // Looking at all workers after each one's heartbeat would take their square. Where nothing was
    // heard a process has ended, or it is time to look.
    const auto now = Deadline::Clock::now();
    if (!has_heard || now >= next_find) {
      FindLost();
      next_find = now + kFindAtLeastEvery;
    }
  }
  SendQueued();
}

bool LivenessMonitor::ReceiveAll() {
  control::PeerName from;
  control::Message message;
  bool has_heard = false;
  while (channel_->Receive(&from, &message)) {
    has_heard = true;
    if (message.empty()) continue;
    const int64_t received = trace::Now();
    if (!control::HasTag(message[0], control::Protocol::kLiveness)) {
      std::optional<control::Frame> answer = control::AnswerToStranger(
          message[0], control::Protocol::kLiveness, control::Protocol::kLiveness,
          "the controller's client port is " + options_.client_endpoint);
      if (answer.has_value()) (void)channel_->Send({&from, 1}, {*std::move(answer)});
      continue;
    }
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
  return has_heard;
}

void LivenessMonitor::HandleHeartbeat(const control::PeerName& from,
                                      wire::Heartbeat::Reader heartbeat) {
  // A worker of an earlier controller at this endpoint. It must not take the place of this one's
  // worker of the same rank, and wants to know that its own controller is no more.
  if (heartbeat.getController() != options_.controller.value) return SendBeacon({from});
  std::lock_guard lock(mutex_);
  const Rank rank = heartbeat.getRank();
  if (rank < 0 || rank >= workers_.size()) return;
  // It lives after all, but its sessions have failed without it, and its rank may be another's.
  if (!workers_.IsWatched(rank, heartbeat.getWatch())) {
    return Dismiss(from, workers_.WhyDismissed(rank, heartbeat.getWatch()));
  }
  const auto now = Deadline::Clock::now();
  if (workers_.Hear(rank, from, now)) greet_ = true;
  workers_.Hear(rank, control::ReadActivity(heartbeat.getActivity()), now);
  if (on_heartbeat_) on_heartbeat_(rank, heartbeat);
}

template <typename Reader>
bool LivenessMonitor::IsFromWatched(Reader message) const {
  return message.getController() == options_.controller.value &&
         workers_.IsWatched(message.getRank(), message.getWatch());
}

template <typename Reader>
void LivenessMonitor::HandleReport(Reader report, const control::Frame& frame) {
  {
    std::lock_guard lock(mutex_);
    if (!IsFromWatched(report)) return;
    workers_.Hear(report.getRank(), control::ReadActivity(report.getActivity()),
                  Deadline::Clock::now());
  }
  on_report_({report.getProbe(), report.getRank(), frame});
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
  if (!order.isFetched() || !on_fetched_) return;
  {
    std::lock_guard lock(mutex_);
    if (!IsFromWatched(order)) return;
    workers_.NoteAlive(order.getRank(), Deadline::Clock::now());
  }
  on_fetched_({order.getRank(), order.getTrace(), order.getRequest(),
               control::ToString(order.getFetched()),
               message.size() > 1 ? message[1] : control::Frame()});
}

void LivenessMonitor::HandleExchange(const control::PeerName& from,
                                     wire::Exchange::Reader exchange) {
  std::vector<std::pair<control::PeerName, Exchanges::Answer>> answers;
  {
    std::lock_guard lock(mutex_);
    if (!IsFromWatched(exchange)) return;
    workers_.SetPeer(exchange.getRank(), from);
    workers_.NoteAlive(exchange.getRank(), Deadline::Clock::now());
    for (Exchanges::Answer& answer : exchanges_.Take(ReadOffer(exchange))) {
      const control::PeerName peer = workers_.PeerOf(answer.to);
      if (!peer.empty()) answers.emplace_back(peer, std::move(answer));
    }
  }
  for (const auto& [peer, answer] : answers) {
    (void)channel_->Send({&peer, 1}, ExchangedMessage(answer));
  }
}

void LivenessMonitor::SendQueued() {
  std::vector<std::pair<std::vector<control::PeerName>, control::Frame>> messages;
  {
    std::lock_guard lock(mutex_);
    for (Queued& queued : std::exchange(queued_, {})) {
      std::vector<control::PeerName> peers;
      if (!queued.only.has_value()) {
        peers = workers_.Peers();
      } else if (const control::PeerName peer = workers_.PeerOf(*queued.only); !peer.empty()) {
        peers = {peer};
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
  // Held while it is told, so that one that finds none with TakeEnded() has been told of all.
  std::lock_guard lock(mutex_);
  for (WorkerLoss& loss : workers_.TakeLost(Deadline::Clock::now())) {
    exchanges_.Forget(loss.rank);
    losses_.push_back(std::move(loss));
    on_lost_(losses_.back());
  }
}

}  // namespace lockstep::controller
