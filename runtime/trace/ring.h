// The last events of one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/trace/event.h"

namespace lockstep::trace {

// Off until Start(). While it is off, being asked is_on() is all that it costs.
//
// Threads: is_on() and started() are safe from any. Add() belongs to one thread (or to several that
// take turns), all else to one other.
class Ring {
 public:
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

  // Does nothing while it is off. When it is full, the oldest event makes room.
  void Add(const Event& event);

  // Forgets what was recorded, and records the last `capacity` events from now on. Memory is taken
  // as it is written to.
  void Start(size_t capacity);
  // Once it returns nothing is added any more. Waits for an Add() that is under way, never for what
  // it tells of.
  void Stop();
  // Stops, and gives the memory back.
  void Clear();

  // While it is off: what was recorded, oldest first.
  size_t size() const;
  Event at(size_t index) const;
  // When it was started last; 0: never.
  int64_t started() const { return started_.load(std::memory_order_relaxed); }
  // How many had to make room.
  uint64_t lost() const { return added_ - size(); }

 private:
  std::atomic<bool> on_{false};
  std::atomic<bool> adding_{false};
  std::atomic<int64_t> started_{0};
  std::unique_ptr<std::byte[]> events_;  // as bytes: pages that are never written to take no memory
  size_t capacity_ = 0;
  uint64_t added_ = 0;
};

}  // namespace lockstep::trace
