// What a worker is doing right now: how far it has come, and what it executes since when.
//
// It lies in shared memory, so that any process that maps it can tell what a worker was doing when
// it was killed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/worker_report.h"

namespace lockstep::control {

// Written by one thread, read by any, of any process. Writing costs a few nanoseconds per command:
// no lock, no allocation, a coarse clock. Readers trust nothing that is written there.
class ActivityPage {
 public:
  using Kind = WorkerActivity::Kind;
  // Longer names are cut; of longer places the end is kept, which tells most.
  static constexpr size_t kNameBytes = 64;
  static constexpr size_t kPlaceBytes = 96;

  // One in a shared segment of this name, which goes with it. The errors of SharedSegment.
  static StatusOr<std::shared_ptr<ActivityPage>> Create(const std::string& name);
  // The one that another process has created there. kNotFound: it is not on this host;
  // kFailedPrecondition: it is of another version.
  static StatusOr<std::shared_ptr<const ActivityPage>> Open(const std::string& name);

  // The executing thread's.
  // A batch of this sequence has been taken from the command socket.
  void Receive(uint64_t sequence) { received_.store(sequence, std::memory_order_relaxed); }
  void Launch(SessionId session, uint64_t command);
  // Gives what was launched its name, and its kind.
  void Name(std::string_view what, Kind kind);
  // Of a plan's step: its line in the program. Nothing to begin with.
  void At(std::string_view place);
  // It is a collective of some of these ranks.
  void Among(Rank first, Rank last);
  void Complete();
  // The same, but it goes on elsewhere: Complete() is called when it is over there.
  void Leave() { kind_.store(Kind::kNone, std::memory_order_relaxed); }
  // What was launched before, and goes on since then, is what this worker does now.
  void Show(SessionId session, uint64_t command, std::string_view what, std::string_view place,
            Kind kind, Rank first, Rank last, std::chrono::steady_clock::time_point since);
  // What registers hold by now.
  void Hold(uint64_t registers, uint64_t tensor_bytes) {
    registers_.store(registers, std::memory_order_relaxed);
    tensor_bytes_.store(tensor_bytes, std::memory_order_relaxed);
  }
  // A collective has been finished.
  void AddCollective(uint64_t bus_bytes, std::chrono::nanoseconds duration) {
    Bump(collectives_);
    Bump(bus_bytes_, bus_bytes);
    Bump(collective_nanos_, static_cast<uint64_t>(duration.count()));
  }

  WorkerActivity Now() const;

 private:
  // There is one writer, so no atomic addition is needed.
  static void Bump(std::atomic<uint64_t>& counter, uint64_t more = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  // Changes with the members below.
  static constexpr uint64_t kLayout = 0x4c4b534143540003;

  // A text of at most so many bytes.
  template <size_t kBytes>
  class Text {
   public:
    void Clear() { length_.store(0, std::memory_order_relaxed); }
    void Write(std::string_view text);
    std::string Read() const;

   private:
    std::atomic<uint32_t> length_{0};
    std::array<std::atomic<uint64_t>, kBytes / sizeof(uint64_t)> words_{};
  };

  const uint64_t layout_ = kLayout;
  std::atomic<uint64_t> received_{0};
  std::atomic<uint64_t> launched_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> registers_{0};
  std::atomic<uint64_t> tensor_bytes_{0};
  std::atomic<uint64_t> collectives_{0};
  std::atomic<uint64_t> bus_bytes_{0};
  std::atomic<uint64_t> collective_nanos_{0};

  // A sequence lock over the fields below: odd while they are being written. They are atomics, so
  // that a reader that has to try again has read nothing forbidden.
  std::atomic<uint64_t> version_{0};
  std::atomic<Kind> kind_{Kind::kNone};
  std::atomic<uint32_t> session_{0};
  std::atomic<uint64_t> command_{0};
  std::atomic<int64_t> began_nanos_{0};
  std::atomic<int32_t> first_rank_{0};
  std::atomic<int32_t> last_rank_{0};
  Text<kNameBytes> name_;
  Text<kPlaceBytes> place_;
};

}  // namespace lockstep::control
