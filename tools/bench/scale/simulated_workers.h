// Many simulated workers, on one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/zmq/zmq_context.h"
#include "tools/bench/scale/simulated_worker.h"

namespace lockstep::bench {

// Threads: safe; one of its own drives the workers.
class SimulatedWorkers {
 public:
  // One for each of `ranks`, which say hello in this order; joining goes on in the background. The
  // errors of SimulatedWorker::Start(), kResourceExhausted if there are too few descriptors.
  // `relay_directory`: where relays listen; empty: there are none.
  static StatusOr<std::unique_ptr<SimulatedWorkers>> Start(const std::string& cluster,
                                                           const std::string& endpoint,
                                                           absl::Span<const Rank> ranks,
                                                           const std::string& relay_directory = "");
  ~SimulatedWorkers();

  // From now on `rank` says nothing any more, and hears nothing, like a process that is stopped.
  void Silence(Rank rank);
  // Another worker asks for the rank of one that was silenced.
  void Replace(Rank rank);

  // Why one of them has ended; OK: none has.
  Status Check();
  // Those that are connected.
  int CountReady();
  // Calls that all of them have taken together.
  uint64_t CountCalls();

 private:
  struct Slot {
    std::unique_ptr<SimulatedWorker> worker;
    bool is_silent = false;
    uint64_t watched = 0;  // its channels as of SimulatedWorker::changes() are waited for
  };

  SimulatedWorkers(std::string cluster, std::string endpoint, std::string relay_directory);

  Status Add(Rank rank);
  void Run();
  // The worker says and takes what it can.
  void Go(Rank rank, SimulatedWorker::Clock::time_point now);
  // Its channels are waited for, or no more.
  void Watch(Rank rank, SimulatedWorker& worker, bool watch);
  // Executed by the thread, between two workers.
  void Post(std::function<void()> task);
  // The same, and waits for it.
  void PostAndWait(const std::function<void()>& task);

  const std::string cluster_;
  const std::string endpoint_;
  const std::string relay_directory_;
  std::vector<std::shared_ptr<control::ZmqContext>> contexts_;
  size_t sockets_ = 0;  // of the last context
  const int epoll_fd_;
  control::WakeUp wake_up_;

  // The thread's own.
  std::unordered_map<Rank, Slot> slots_;
  std::vector<std::unique_ptr<SimulatedWorker>> replaced_;
  uint64_t made_ = 0;
  Status status_;

  std::mutex mutex_;
  std::condition_variable done_;
  bool is_stopping_ = false;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace lockstep::bench
