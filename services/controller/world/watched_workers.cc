#include "services/controller/world/watched_workers.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "services/controller/world/worker_end.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;

ExitStatus EndOf(const WatchedWorkers::Signs& signs) {
  return signs.process.has_value() ? signs.process->HowItEnded() : ExitStatus{.known = false};
}

std::optional<uint64_t> OomKillsSince(std::optional<uint64_t> before) {
  const std::optional<uint64_t> now = CountOomKills();
  if (!before.has_value() || !now.has_value()) return std::nullopt;
  return *now - *before;
}

}  // namespace

WatchedWorkers::Signs WatchedWorkers::FindSigns(const std::string& host_id, int pid,
                                                const std::string& activity) {
  Signs signs;
  signs.pid = pid;
  // Elsewhere, and where /dev/shm is not shared, there is none: then heartbeats must do.
  auto page = control::ActivityPage::Open(activity);
  if (page.ok()) signs.page = *std::move(page);
  if (host_id == ThisHost().id && pid != getpid()) {
    // Where the kernel cannot (an old one), heartbeats must do.
    StatusOr<WatchedProcess> process = WatchedProcess::Watch(pid);
    signs.had_ended = process.status().code() == StatusCode::kNotFound;
    if (process.ok()) signs.process = *std::move(process);
    signs.oom_kills = CountOomKills();
  }
  return signs;
}

LastHeard WatchedWorkers::Watched::Last(TimePoint now) const {
  return {signs.page == nullptr ? activity : signs.page->Now(), signs.page != nullptr,
          std::chrono::duration_cast<milliseconds>(now - last_heard)};
}

WatchedWorkers::WatchedWorkers(int workers, Patience patience)
    : patience_(patience),
      ended_fd_(epoll_create1(EPOLL_CLOEXEC)),
      workers_(static_cast<size_t>(workers)) {}

WatchedWorkers::~WatchedWorkers() {
  if (ended_fd_ >= 0) close(ended_fd_);
}

WatchId WatchedWorkers::Watch(Rank rank, Signs signs, TimePoint now) {
  Watched& watched = At(rank) = Watched();
  watched.watching = true;
  watched.id = last_watch_ = WatchId(last_watch_.value + 1);
  watched.last_heard = now;
  watched.signs = std::move(signs);
  if (watched.signs.process.has_value()) {
    epoll_event event{EPOLLIN, {.u64 = static_cast<uint64_t>(rank)}};
    epoll_ctl(ended_fd_, EPOLL_CTL_ADD, watched.signs.process->fd(), &event);
  }
  return watched.id;
}

void WatchedWorkers::Welcome(Rank rank, TimePoint now) {
  At(rank).welcome = true;
  At(rank).last_heard = now;
}

bool WatchedWorkers::IsWatched(Rank rank, uint64_t watch) const {
  return Exists(rank) && At(rank).watching && At(rank).id.value == watch;
}

std::string WatchedWorkers::WhyDismissed(Rank rank, uint64_t watch) const {
  const Watched& watched = At(rank);
  const bool is_last = watched.id.value == watch;
  return is_last && !watched.lost_because.empty() ? watched.lost_because : "another has its rank";
}

bool WatchedWorkers::Hear(Rank rank, const control::PeerName& peer, TimePoint now) {
  Watched& watched = At(rank);
  watched.last_heard = now;
  watched.was_heard = true;
  if (watched.peer == peer) return false;
  watched.peer = peer;
  return true;
}

void WatchedWorkers::Hear(Rank rank, const WorkerActivity& activity, TimePoint now) {
  At(rank).last_heard = now;
  At(rank).activity = activity;
}

control::PeerName WatchedWorkers::PeerOf(Rank rank) const {
  return At(rank).watching ? At(rank).peer : control::PeerName();
}

std::vector<control::PeerName> WatchedWorkers::Peers() const {
  std::vector<control::PeerName> peers;
  for (const Watched& watched : workers_) {
    if (watched.watching && !watched.peer.empty()) peers.push_back(watched.peer);
  }
  return peers;
}

std::vector<bool> WatchedWorkers::FindEnded() const {
  std::vector<bool> ended(workers_.size());
  for (size_t rank = 0; rank < ended.size(); ++rank) ended[rank] = workers_[rank].signs.had_ended;
  // Others are told the next time.
  constexpr int kMostAtOnce = 256;
  epoll_event events[kMostAtOnce];
  const int count = epoll_wait(ended_fd_, events, kMostAtOnce, 0);
  for (int i = 0; i < count; ++i) ended[events[i].data.u64] = true;
  return ended;
}

LastHeard WatchedWorkers::LastHeardOf(Rank rank, TimePoint now) const {
  const Watched& watched = At(rank);
  return watched.watching ? watched.Last(now) : LastHeard{watched.activity};
}

WorkerLoss WatchedWorkers::Lose(Rank rank, const std::string& reason, TimePoint now) {
  Watched& watched = At(rank);
  const WorkerLoss loss{rank, watched.id, reason, watched.Last(now)};
  watched.activity = loss.last.activity;
  watched.signs.page.reset();
  watched.signs.process.reset();
  watched.watching = false;
  watched.lost_because = reason;
  return loss;
}

WorkerLoss WatchedWorkers::LoseEnded(Rank rank, TimePoint now) {
  const Signs& signs = At(rank).signs;
  const ExitStatus end = EndOf(signs);
  const std::optional<uint64_t> oom_kills = OomKillsSince(signs.oom_kills);
  const std::string hint = HintAtCause(end, oom_kills);
  WorkerLoss loss = Lose(rank, DescribeEnd(signs.pid, end), now);
  loss.hint = hint;
  if (end.signal != SIGKILL || oom_kills.value_or(0) > 0) loss.likely_cause = hint;
  loss.log_tells = true;
  return loss;
}

std::vector<WorkerLoss> WatchedWorkers::TakeEnded(TimePoint now) {
  const std::vector<bool> ended = FindEnded();
  std::vector<WorkerLoss> losses;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!At(rank).watching || !ended[static_cast<size_t>(rank)]) continue;
    losses.push_back(LoseEnded(rank, now));
  }
  return losses;
}

TimePoint WatchedWorkers::SilentAt(const Watched& watched) const {
  const bool has_begun = watched.welcome && watched.was_heard;
  return watched.last_heard + (has_begun ? patience_.worker_timeout : patience_.joining_timeout);
}

std::string WatchedWorkers::WhySilent(const Watched& watched, TimePoint now) const {
  if (now < SilentAt(watched)) return "";
  const auto silence = std::chrono::duration_cast<milliseconds>(now - watched.last_heard);
  const bool is_stopped = watched.signs.process.has_value() && watched.signs.process->IsStopped();
  return "no heartbeat for " + std::to_string(silence.count()) + " ms" +
         (is_stopped ? "; its process " + std::to_string(watched.signs.pid) + " is stopped" : "");
}

std::vector<WorkerLoss> WatchedWorkers::TakeLost(TimePoint now) {
  const auto gap = last_look_ == TimePoint() ? TimePoint::duration() : now - last_look_;
  last_look_ = now;
  if (gap > 2 * patience_.heartbeat_interval) {
    for (Watched& watched : workers_) watched.last_heard = std::min(now, watched.last_heard + gap);
  }
  next_look_ = now + patience_.heartbeat_interval;
  const std::vector<bool> ended = FindEnded();
  std::vector<WorkerLoss> losses;
  for (Rank rank = 0; rank < size(); ++rank) {
    const Watched& watched = At(rank);
    if (!watched.watching) continue;
    if (ended[static_cast<size_t>(rank)]) {
      losses.push_back(LoseEnded(rank, now));
      continue;
    }
    const std::string reason = WhySilent(watched, now);
    if (!reason.empty()) {
      losses.push_back(Lose(rank, reason, now));
      losses.back().may_live = true;
      losses.back().log_tells = true;
      continue;
    }
    next_look_ = std::min(next_look_, SilentAt(watched));
  }
  return losses;
}

}  // namespace lockstep::controller
