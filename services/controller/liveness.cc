#include "services/controller/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/control/host.h"
#include "runtime/control/message_codec.h"

namespace lockstep::controller {
namespace {

bool HasEnded(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

LivenessMonitor::LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers,
                                 Options options, OnLost on_lost)
    : options_(options),
      on_lost_(std::move(on_lost)),
      channel_(std::move(channel)),
      workers_(static_cast<size_t>(workers)),
      thread_([this] { Run(); }) {}

LivenessMonitor::~LivenessMonitor() {
  Stop();
  for (Watched& watched : workers_) Unwatch(watched);
}

void LivenessMonitor::Stop() {
  stopping_ = true;
  wake_up_.Signal();
  if (thread_.joinable()) thread_.join();
}

void LivenessMonitor::Watch(Rank rank, const std::string& host_id, int pid) {
  std::lock_guard lock(mutex_);
  Watched& watched = workers_[static_cast<size_t>(rank)];
  Unwatch(watched);
  watched = Watched();
  watched.watching = true;
  watched.last_heard = Deadline::Clock::now();
  watched.pid = pid;
  if (host_id == control::ThisHost().id && pid != getpid()) {
    // Where the kernel cannot (an old one, a process that has already ended), heartbeats must do.
    watched.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  }
  wake_up_.Signal();
}

void LivenessMonitor::Unwatch(Watched& watched) {
  if (watched.pidfd >= 0) close(watched.pidfd);
  watched.pidfd = -1;
  watched.watching = false;
}

void LivenessMonitor::Abort(SessionId session, Generation generation,
                            const control::RemoteError& cause) {
  control::Frame frame =
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto abort = message.initAbort();
        abort.setSession(session.value);
        abort.setGeneration(generation.value);
        control::WriteError(abort.initCause(), cause);
      });
  std::lock_guard lock(mutex_);
  queued_.push_back(std::move(frame));
  wake_up_.Signal();
}

Progress LivenessMonitor::ProgressOf(Rank rank) const {
  std::lock_guard lock(mutex_);
  const Watched& watched = workers_[static_cast<size_t>(rank)];
  Progress progress = watched.progress;
  if (watched.watching) {
    progress.heartbeat_age = std::chrono::duration_cast<std::chrono::milliseconds>(
        Deadline::Clock::now() - watched.last_heard);
  }
  return progress;
}

void LivenessMonitor::Run() {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  auto next_beacon = Deadline::Clock::now();
  while (!stopping_) {
    std::vector<int> descriptors = {wake_up_.fd()};
    {
      std::lock_guard lock(mutex_);
      for (const Watched& watched : workers_) {
        if (watched.pidfd >= 0) descriptors.push_back(watched.pidfd);
      }
    }
    waiter.Wait(channels, descriptors, Deadline::At(next_beacon));
    wake_up_.Clear();
    ReceiveAll();
    SendQueued();
    if (greet_ || Deadline::Clock::now() >= next_beacon) {
      greet_ = false;
      SendBeacons();
      next_beacon = Deadline::Clock::now() + options_.heartbeat_interval;
    }
    for (const Loss& loss : FindLost()) on_lost_(loss.rank, loss.reason);
  }
  SendQueued();
}

void LivenessMonitor::ReceiveAll() {
  control::PeerName from;
  control::Message message;
  while (channel_->Receive(&from, &message)) {
    if (message.empty()) continue;
    // What cannot be read is dropped: a worker that only sends such is lost soon enough.
    (void)control::DecodeMessage<wire::LivenessMessage>(
        message[0], [&](wire::LivenessMessage::Reader reader) {
          if (reader.isHeartbeat()) HandleHeartbeat(from, reader.getHeartbeat());
          return OkStatus();
        });
  }
}

void LivenessMonitor::HandleHeartbeat(const control::PeerName& from,
                                      wire::Heartbeat::Reader heartbeat) {
  std::lock_guard lock(mutex_);
  const Rank rank = heartbeat.getRank();
  if (rank < 0 || rank >= static_cast<Rank>(workers_.size()) ||
      heartbeat.getEpoch() != options_.epoch.value) {
    return;
  }
  Watched& watched = workers_[static_cast<size_t>(rank)];
  if (!watched.watching) return;
  if (watched.peer != from) greet_ = true;
  watched.peer = from;
  watched.last_heard = Deadline::Clock::now();
  watched.progress.received = heartbeat.getReceived();
  watched.progress.launched = heartbeat.getLaunched();
  watched.progress.completed = heartbeat.getCompleted();
}

std::vector<control::PeerName> LivenessMonitor::Peers() const {
  std::vector<control::PeerName> peers;
  for (const Watched& watched : workers_) {
    if (watched.watching && !watched.peer.empty()) peers.push_back(watched.peer);
  }
  return peers;
}

void LivenessMonitor::SendQueued() {
  std::vector<control::Frame> frames;
  std::vector<control::PeerName> peers;
  {
    std::lock_guard lock(mutex_);
    frames.swap(queued_);
    if (!frames.empty()) peers = Peers();
  }
  // A worker that cannot be reached is lost, which FindLost notices.
  for (const control::Frame& frame : frames) (void)channel_->Send(peers, {frame});
}

void LivenessMonitor::SendBeacons() {
  const control::Frame frame =
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto heartbeat = message.initHeartbeat();
        heartbeat.setRank(-1);
        heartbeat.setEpoch(options_.epoch.value);
      });
  std::vector<control::PeerName> peers;
  {
    std::lock_guard lock(mutex_);
    peers = Peers();
  }
  (void)channel_->Send(peers, {frame});
}

std::vector<LivenessMonitor::Loss> LivenessMonitor::FindLost() {
  std::vector<Loss> losses;
  std::lock_guard lock(mutex_);
  const auto now = Deadline::Clock::now();
  for (size_t i = 0; i < workers_.size(); ++i) {
    Watched& watched = workers_[i];
    if (!watched.watching) continue;
    std::string reason;
    if (watched.pidfd >= 0 && HasEnded(watched.pidfd)) {
      reason = "its process " + std::to_string(watched.pid) + " has ended";
    } else if (now - watched.last_heard > options_.worker_timeout) {
      const auto silence =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - watched.last_heard);
      reason = "no heartbeat for " + std::to_string(silence.count()) + " ms";
    } else {
      continue;
    }
    Unwatch(watched);
    losses.push_back({static_cast<Rank>(i), reason});
  }
  return losses;
}

}  // namespace lockstep::controller
