// What fragments of a session have had moved: nothing, where their inputs lie as they are wanted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// Since the session was opened here.
struct FragmentTraffic {
  uint64_t executions = 0;
  uint64_t sent_bytes = 0;   // of the client's tensors, to worker-0
  uint64_t moved_bytes = 0;  // that workers did not have of what they were to have: between workers
};

namespace client {

// Threads: safe.
class FragmentTrafficCounts {
 public:
  void AddExecution() { executions_.fetch_add(1, std::memory_order_relaxed); }
  void AddSent(size_t bytes) { sent_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddMoved(int64_t bytes) {
    moved_bytes_.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  }
  FragmentTraffic Get() const {
    return {executions_.load(std::memory_order_relaxed),
            sent_bytes_.load(std::memory_order_relaxed),
            moved_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> executions_{0};
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<uint64_t> moved_bytes_{0};
};

}  // namespace client
}  // namespace lockstep
