// Hands what functions print to the client's callback.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/client/worker_output.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::client {

// A thread of its own calls the callback, and reads the session's socket while no other thread
// does, so that lines are seen while the program is busy elsewhere.
//
// What has come and is not handed over yet is bounded by the controller's window (OutputTaken).
//
// Threads: safe.
class OutputListener {
 public:
  struct Source {
    // Becomes readable when something may have arrived.
    int wait_fd = -1;
    // Takes in what has arrived. False: another thread is reading, too.
    std::function<bool()> look;
    // Around sleeping on wait_fd.
    std::function<void()> begin_sleep;
    std::function<void()> end_sleep;
    // Everything up to this position has been handed over.
    std::function<void(uint64_t position)> taken;
  };

  OutputListener(OutputCallback callback, Source source);
  ~OutputListener() { Stop(); }

  void Push(std::vector<WorkerOutput> lines, uint64_t position);
  // Returns when all that was pushed before is handed over, or the callback is slow: then no caller
  // waits for it until it has caught up. At once on the callback's own thread.
  void AwaitHandedOver();
  // What was pushed is handed over first.
  void Stop();

 private:
  struct Batch {
    std::vector<WorkerOutput> lines;
    uint64_t position = 0;
  };

  void Run();
  void HandOver(const std::vector<Batch>& batches);

  const OutputCallback callback_;
  const Source source_;
  control::WakeUp wake_up_;

  std::mutex mutex_;
  std::condition_variable handed_over_changed_;
  std::vector<Batch> waiting_;
  uint64_t pushed_ = 0;       // batches
  uint64_t handed_over_ = 0;  // the same
  bool is_slow_ = false;      // a caller has waited for the callback in vain
  bool stopping_ = false;

  uint64_t told_position_ = 0;  // the thread's own
  // Of thread_, which another thread may be joining.
  std::atomic<std::thread::id> thread_id_;
  std::thread thread_;
};

}  // namespace lockstep::client
