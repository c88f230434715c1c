// Liveness: who is alive, apart from the command path, so that a long kernel never looks like a
// dead worker and an abort reaches a worker that is busy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/worker_report.h"
#include "schemas/membership.capnp.h"
#include "services/controller/exchanges.h"

namespace lockstep::controller {

// What a worker does, and when it was heard last.
struct LastHeard {
  WorkerActivity activity;
  // True: read in its memory, so it is what the worker does now, or did when it ended. False: what
  // it said when it was heard last.
  bool is_present = false;
  std::chrono::milliseconds heartbeat_age{0};
};

// One watching of one worker: a rank whose worker has left may be watched again, for the next one.
using WatchId = StrongId<struct WatchIdTag, uint64_t>;

// Listens for heartbeats on a socket and a thread of its own; watches processes on this host, so
// that a killed worker is noticed at once and not after a time-out. Heartbeats of workers that
// another controller welcomed count for nothing, and are answered with this one's; those of
// workers that this one has given up are told to end.
//
// Threads: safe. The callbacks come on the liveness thread, and call nothing here: `on_lost` once
// per watching; news of one that has been given up meanwhile may still come.
class LivenessMonitor {
 public:
  struct Options {
    Epoch controller;  // in which it was started
    std::chrono::milliseconds heartbeat_interval{500};
    // How long a worker may be silent before its welcome, ...
    std::chrono::milliseconds joining_timeout{5000};
    // ... and after it.
    std::chrono::milliseconds worker_timeout{2000};
  };
  struct Loss {
    Rank rank = 0;
    WatchId watch;
    std::string reason;
    LastHeard last;
  };
  using OnLost = std::function<void(const Loss&)>;
  // A worker's answer to a probe, or to AskRegisters().
  struct Report {
    uint64_t probe = 0;
    Rank rank = 0;
    control::Frame frame;  // a LivenessMessage with the report, which can be read
  };
  using OnReport = std::function<void(const Report&)>;
  using OnHeartbeat = std::function<void(Rank, wire::Heartbeat::Reader)>;
  // A worker's answer to whoever fetches what it has recorded for a timeline.
  struct Fetched {
    Rank rank = 0;
    uint64_t trace = 0;
    uint64_t request = 0;
    std::string problem;  // why there is nothing; empty: there is a body
    control::Frame body;
  };
  using OnFetched = std::function<void(Fetched)>;

  LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers, Options options,
                  OnLost on_lost, OnReport on_report, OnHeartbeat on_heartbeat = {},
                  OnFetched on_fetched = {});
  ~LivenessMonitor();

  // `rank` has asked to join, and is expected to show signs of life now and then. `pid` is watched
  // too if it is a process of this host (same `host_id`) and not this one. What it does is read in
  // the segment `activity`, where that is on this host.
  WatchId Watch(Rank rank, const std::string& host_id, int pid, const std::string& activity = "");
  // A sign of life that came another way.
  void NoteAlive(Rank rank);
  // `rank` is welcome, and sends heartbeats from now on.
  void ExpectHeartbeats(Rank rank);
  // `rank` is not expected to live any more.
  void Forget(Rank rank);
  // `rank` is lost for a reason that was found elsewhere; on_lost does not tell. Should it live, it
  // is told to end.
  Loss GiveUp(Rank rank, const std::string& reason);
  // Those whose process has ended and of whom on_lost has not told; nor will it. Costs a system
  // call for each.
  std::vector<Loss> TakeEnded();

  // Tells all workers that the session's work of this generation is aborted, from a command on (0:
  // all of it).
  void Abort(SessionId session, Generation generation, uint64_t from_command,
             const control::RemoteError& cause);

  // Tells all workers that nobody is to wait for the world of `epoch`, which has lost a worker.
  void BreakWorld(Epoch epoch);

  // Asks all workers what they are doing; their reports come by `on_report`.
  void Probe(uint64_t probe);
  // Asks one rank, or all (-1), what registers hold, of one session, or of all (0); `most` of them
  // by each rank. The answers come the same way.
  void AskRegisters(uint64_t probe, Rank rank, SessionId session, uint32_t most);

  // Sends a LivenessMessage to all workers, or to that of `only`.
  void Tell(control::Frame frame, std::optional<Rank> only = {});

  LastHeard LastHeardOf(Rank rank) const;

  // Sends what is queued and ends the thread.
  void Stop();

 private:
  struct Watched {
    bool watching = false;
    bool welcome = false;
    WatchId id;
    control::PeerName peer;  // empty before the first heartbeat
    Deadline::Clock::time_point last_heard;
    WorkerActivity activity;                            // as the last heartbeat told it
    std::shared_ptr<const control::ActivityPage> page;  // null: not on this host
    int pid = 0;
    std::optional<WatchedProcess> process;  // none: not watched as a process
    bool had_ended = false;                 // before it could be watched
    std::string lost_because;               // once it is lost

    LastHeard Last() const;
    bool HasEnded() const { return had_ended || (process.has_value() && process->HasEnded()); }
  };

  void Run();
  void ReceiveAll();
  // A Report or HeldRegisters.
  template <typename Reader>
  void HandleReport(Reader report, const control::Frame& frame);
  void HandleHeartbeat(const control::PeerName& from, wire::Heartbeat::Reader heartbeat);
  void HandleExchange(const control::PeerName& from, wire::Exchange::Reader exchange);
  // `received`: when it came.
  void HandleTrace(const control::PeerName& from, wire::TraceOrder::Reader order,
                   const control::Message& message, int64_t received);
  void SendQueued();
  void SendBeacon(const std::vector<control::PeerName>& peers);
  void Dismiss(const control::PeerName& worker, const std::string& why);
  void FindLost();
  // With mutex_ held: `rank` is lost.
  Loss Lose(Rank rank, const std::string& reason);
  std::vector<control::PeerName> Peers() const;  // with mutex_ held

  const Options options_;
  const OnLost on_lost_;
  const OnReport on_report_;
  const OnHeartbeat on_heartbeat_;
  const OnFetched on_fetched_;
  const std::unique_ptr<control::ServerChannel> channel_;  // the liveness thread's
  control::WakeUp wake_up_;

  mutable std::mutex mutex_;
  std::vector<Watched> workers_;
  Exchanges exchanges_;
  WatchId last_watch_;
  Deadline::Clock::time_point last_look_;  // when FindLost() last looked for silent workers
  Deadline::Clock::time_point next_loss_;  // when somebody is lost at the earliest: look again then
  struct Queued {
    control::Frame frame;
    std::optional<Rank> only;  // none: to all
  };
  std::vector<Queued> queued_;  // to be sent
  bool greet_ = false;          // a worker was heard for the first time and waits for a sign

  std::atomic<uint64_t> broken_{0};  // the last world that lost somebody
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lockstep::controller
