// What a worker is doing right now: how far it has come, and what it executes since when.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "runtime/base/ids.h"
#include "runtime/control/activity.h"

namespace lockstep::worker {

// Written by the executing thread, read by any. Writing costs a few nanoseconds per command: no
// lock, no allocation, a coarse clock.
class Activity {
 public:
  using Kind = WorkerActivity::Kind;
  // Longer names are cut.
  static constexpr size_t kNameBytes = 64;

  // The executing thread's.
  void Receive() { Bump(received_); }
  void Launch(SessionId session, uint64_t command);
  // Gives what was launched its name, and its kind.
  void Name(std::string_view what, Kind kind);
  void Complete();

  WorkerActivity Now() const;

 private:
  // There is one writer, so no atomic addition is needed.
  static void Bump(std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static constexpr size_t kNameWords = kNameBytes / sizeof(uint64_t);

  std::atomic<uint64_t> received_{0};
  std::atomic<uint64_t> launched_{0};
  std::atomic<uint64_t> completed_{0};

  // A sequence lock over the fields below: odd while they are being written. They are atomics, so
  // that a reader that has to try again has read nothing forbidden.
  std::atomic<uint64_t> version_{0};
  std::atomic<Kind> kind_{Kind::kNone};
  std::atomic<uint32_t> session_{0};
  std::atomic<uint64_t> command_{0};
  std::atomic<int64_t> began_nanos_{0};
  std::atomic<uint32_t> name_length_{0};
  std::array<std::atomic<uint64_t>, kNameWords> name_{};
};

}  // namespace lockstep::worker
