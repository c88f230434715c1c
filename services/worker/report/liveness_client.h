// The worker's end of liveness: heartbeats and reports out, aborts and probes in; and the way to
// the rendezvous.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/silence.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/rendezvous.h"
#include "services/worker/report/arrival_log.h"
#include "services/worker/report/liveness_health.h"
#include "services/worker/report/register_query_queue.h"
#include "services/worker/report/reporter.h"
#include "services/worker/report/tracer.h"

namespace lockstep::worker {

// A socket and a thread of its own, so that it works while the executing thread is in a long kernel
// or a collective.
//
// Threads: safe. The callbacks come on the liveness thread.
class LivenessClient {
 public:
  struct Options {
    Rank rank = 0;
    Epoch controller;    // from the welcome
    uint64_t watch = 0;  // the same
    std::chrono::milliseconds heartbeat_interval{500};
    std::chrono::milliseconds controller_timeout{10'000};
    // What heartbeats tell (but for what was noted before), where signs of life are noted, and who
    // takes part in timelines; all outlive this object, and may be null.
    ArrivalLog* arrivals = nullptr;
    LivenessHealth* liveness_health = nullptr;
    Tracer* tracer = nullptr;
    // Where to ask what registers hold; the same.
    RegisterQueryQueue* register_queries = nullptr;
  };
  struct Callbacks {
    std::function<void(SessionId, const AbortOrder&)> abort;
    // The world of this epoch has lost a worker: this worker must not wait for its ranks any more.
    std::function<void(Epoch)> world_broken;
    // The controller has been silent for controller_timeout while this process ran, or another one
    // has taken its place. Called once, or the next instead.
    std::function<void(const Status& why)> controller_lost;
    // The controller has given this worker up.
    std::function<void(const Status& why)> dismissed;
  };

  // `executing_thread` is the one that writes `activity`; both outlive this object.
  LivenessClient(std::unique_ptr<control::ClientChannel> channel, Options options,
                 const control::ActivityPage& activity, pthread_t executing_thread,
                 Callbacks callbacks);
  ~LivenessClient();

  // Waits for the controller's first sign of life: from then on its aborts arrive. kAborted once
  // `stopping` is true, which a readable `wake_fd` asks to look at; kDeadlineExceeded. One thread.
  Status WaitUntilHeard(int wake_fd, const std::atomic<bool>& stopping, Deadline deadline);

  // It outlives this object, and then leads nowhere.
  const std::shared_ptr<ControllerRendezvous>& rendezvous() const { return rendezvous_; }

 private:
  void Run();
  // Sends a heartbeat if it is time for one. That is also when the controller's has come, so that
  // both take one waking of each thread on the way.
  void Beat(bool controller_beats, Deadline::Clock::time_point now);
  // When it is time, if the controller's does not come.
  Deadline::Clock::time_point NextHeartbeat() const;
  void SendHeartbeat();
  // To be sent by the thread.
  void Post(control::Frame frame);
  void SendPosted();
  // True: a heartbeat of the controller's was among it.
  bool Receive();
  // Calls one of the last two callbacks.
  void End(const std::function<void(const Status& why)>& callback, const Status& why);

  const Options options_;
  const control::ActivityPage& activity_;
  const Callbacks callbacks_;
  const std::unique_ptr<control::ClientChannel> channel_;
  control::WakeUp wake_up_;
  std::atomic<bool> stopping_{false};
  Silence silence_;                             // of the controller; the thread's own
  Deadline::Clock::time_point last_heartbeat_;  // the thread's own
  bool ended_ = false;                          // the thread's own
  log::Limit dropped_;                          // the thread's own

  std::mutex posted_mutex_;
  std::vector<control::Frame> posted_;

  std::atomic<bool> heard_{false};
  control::WakeUp heard_signal_;

  const std::shared_ptr<ControllerRendezvous> rendezvous_;
  Reporter reporter_;
  std::thread thread_;
};

}  // namespace lockstep::worker
