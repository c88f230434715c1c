// Which workers are watched, when each was heard last, and which of them are lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/process.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/worker_report.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/liveness.h"

namespace lockstep::controller {

// Knows processes of this host and pages of its memory, but no sockets, threads or clocks.
//
// Threads: one at a time.
class WatchedWorkers {
 public:
  struct Patience {
    std::chrono::milliseconds heartbeat_interval{500};
    // How long a worker may be silent before its welcome, and from there to its first heartbeat: in
    // a large world many connect at once; ...
    std::chrono::milliseconds joining_timeout{5000};
    // ... and from then on.
    std::chrono::milliseconds worker_timeout{2000};
  };
  // How a worker can be watched, besides its heartbeats.
  struct Signs {
    int pid = 0;
    std::optional<WatchedProcess> process;              // none: not watched as a process
    bool had_ended = false;                             // before it could be watched
    std::optional<uint64_t> oom_kills;                  // of this host until then
    std::shared_ptr<const control::ActivityPage> page;  // null: not on this host
  };
  // Those that a worker of this host and process id offers.
  static Signs FindSigns(const std::string& host_id, int pid, const std::string& activity);

  WatchedWorkers(int workers, Patience patience);
  ~WatchedWorkers();
  WatchedWorkers(const WatchedWorkers&) = delete;
  WatchedWorkers& operator=(const WatchedWorkers&) = delete;

  int size() const { return static_cast<int>(workers_.size()); }
  WatchId Watch(Rank rank, Signs signs, TimePoint now);
  // It is welcome, and sends heartbeats from now on.
  void Welcome(Rank rank, TimePoint now);
  void NoteAlive(Rank rank, TimePoint now) { At(rank).last_heard = now; }
  void Forget(Rank rank) { At(rank) = Watched(); }

  // True if `rank` is watched under this number. Ranks that do not exist are not.
  bool IsWatched(Rank rank, uint64_t watch) const;
  // Why a worker that says so is not watched, for people.
  std::string WhyDismissed(Rank rank, uint64_t watch) const;
  // What a worker that is watched says of itself. True if it was heard for the first time.
  bool Hear(Rank rank, const control::PeerName& peer, TimePoint now);
  void Hear(Rank rank, const WorkerActivity& activity, TimePoint now);
  void SetPeer(Rank rank, const control::PeerName& peer) { At(rank).peer = peer; }

  // On the liveness channel; empty before the first heartbeat, or where none is watched.
  control::PeerName PeerOf(Rank rank) const;
  std::vector<control::PeerName> Peers() const;
  // Readable while there is a process that has ended and is watched; -1: no descriptor was left.
  int ended_fd() const { return ended_fd_; }
  LastHeard LastHeardOf(Rank rank, TimePoint now) const;

  // `rank` is not watched any more.
  WorkerLoss Lose(Rank rank, const std::string& reason, TimePoint now);
  // Those whose process has ended. Costs one system call, however many there are.
  std::vector<WorkerLoss> TakeEnded(TimePoint now);
  // The same, and those that are silent for too long. Looks at least once per heartbeat interval:
  // if it could not (the process was stopped, or the machine was), heartbeats wait to be read, and
  // that time is not their silence.
  std::vector<WorkerLoss> TakeLost(TimePoint now);
  // When TakeLost() has to be called next.
  TimePoint next_look() const { return next_look_; }

 private:
  struct Watched {
    bool watching = false;
    bool welcome = false;
    bool was_heard = false;  // on the liveness channel
    WatchId id;
    control::PeerName peer;
    TimePoint last_heard;
    WorkerActivity activity;  // as it was told last
    Signs signs;
    std::string lost_because;  // once it is lost

    LastHeard Last(TimePoint now) const;
  };

  // By rank: its process has ended.
  std::vector<bool> FindEnded() const;

  // `rank`, whose process has ended, is not watched any more.
  WorkerLoss LoseEnded(Rank rank, TimePoint now);
  // When it is lost if it is not heard until then.
  TimePoint SilentAt(const Watched& watched) const;
  // Empty: it is not.
  std::string WhySilent(const Watched& watched, TimePoint now) const;
  bool Exists(Rank rank) const { return rank >= 0 && rank < size(); }
  Watched& At(Rank rank) { return workers_[static_cast<size_t>(rank)]; }
  const Watched& At(Rank rank) const { return workers_[static_cast<size_t>(rank)]; }

  const Patience patience_;
  // Epoll, of all watched processes: a poll of each one's descriptor, after every heartbeat, would
  // take the square of a thousand of them. The kernel forgets one whose descriptor is closed.
  const int ended_fd_;
  std::vector<Watched> workers_;
  WatchId last_watch_;
  TimePoint last_look_;  // of TakeLost(); none: it was not called yet
  TimePoint next_look_;
};

}  // namespace lockstep::controller
