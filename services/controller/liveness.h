// Liveness: who is alive, apart from the command path, so that a long kernel never looks like a
// dead worker and an abort reaches a worker that is busy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "schemas/membership.capnp.h"

namespace lockstep::controller {

// What a worker reports with each heartbeat, since its start.
struct Progress {
  uint64_t received = 0;   // batches
  uint64_t launched = 0;   // commands begun
  uint64_t completed = 0;  // commands finished
  std::chrono::milliseconds heartbeat_age{0};
};

// Listens for heartbeats on a socket and a thread of its own; watches processes on this host, so
// that a killed worker is noticed at once and not after a time-out.
//
// Threads: safe. `on_lost` is called on the liveness thread, once per worker.
class LivenessMonitor {
 public:
  struct Options {
    Epoch epoch;
    std::chrono::milliseconds heartbeat_interval{500};
    std::chrono::milliseconds worker_timeout{2000};
  };
  using OnLost = std::function<void(Rank, const std::string& reason)>;

  LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers, Options options,
                  OnLost on_lost);
  ~LivenessMonitor();

  // From now on `rank` is expected to send heartbeats. `pid` is watched too if it is a process of
  // this host (same `host_id`) and not this one.
  void Watch(Rank rank, const std::string& host_id, int pid);

  // Tells all workers that the session's work of this generation is aborted.
  void Abort(SessionId session, Generation generation, const control::RemoteError& cause);

  Progress ProgressOf(Rank rank) const;

  // Sends what is queued and ends the thread.
  void Stop();

 private:
  struct Watched {
    bool watching = false;
    control::PeerName peer;  // empty before the first heartbeat
    Deadline::Clock::time_point last_heard;
    Progress progress;
    int pid = 0;
    int pidfd = -1;  // -1: not watched as a process
  };
  struct Loss {
    Rank rank;
    std::string reason;
  };

  void Run();
  void ReceiveAll();
  void HandleHeartbeat(const control::PeerName& from, wire::Heartbeat::Reader heartbeat);
  void SendQueued();
  void SendBeacons();
  std::vector<Loss> FindLost();
  std::vector<control::PeerName> Peers() const;  // with mutex_ held
  void Unwatch(Watched& watched);

  const Options options_;
  const OnLost on_lost_;
  const std::unique_ptr<control::ServerChannel> channel_;  // the liveness thread's
  control::WakeUp wake_up_;

  mutable std::mutex mutex_;
  std::vector<Watched> workers_;
  std::vector<control::Frame> queued_;  // to be sent to all
  bool greet_ = false;  // a worker was heard for the first time and waits for a sign

  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lockstep::controller
