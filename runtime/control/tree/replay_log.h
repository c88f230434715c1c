// The packets that some worker may not have got yet, for when it gets another parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "runtime/control/channel.h"
#include "runtime/control/tree/flat_message.h"

namespace lockstep::control {

// Threads: one at a time.
class ReplayLog {
 public:
  // Beyond so many bytes the oldest are dropped: a worker that needs them is lost.
  explicit ReplayLog(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Packet last() + 1.
  void Add(Message packet) {
    bytes_ += CostOf(packet);
    packets_.push_back(std::move(packet));
    ++last_;
    while (bytes_ > most_bytes_ && packets_.size() > 1) DropFirst();
  }
  // All workers have got those up to `number`.
  void Forget(uint64_t number) {
    while (!packets_.empty() && first() <= number) DropFirst();
  }

  // Of the packets that are here; last() + 1 if there are none.
  uint64_t first() const { return last_ + 1 - packets_.size(); }
  uint64_t last() const { return last_; }
  size_t bytes() const { return bytes_; }
  // `number` is one of those.
  const Message& at(uint64_t number) const { return packets_[number - first()]; }

 private:
  static size_t CostOf(const Message& packet) {
    constexpr size_t kOfEach = 256;  // about what an empty one takes
    return SizeOf(packet) + kOfEach;
  }
  void DropFirst() {
    bytes_ -= CostOf(packets_.front());
    packets_.pop_front();
  }

  const size_t most_bytes_;
  uint64_t last_ = 0;
  size_t bytes_ = 0;
  std::deque<Message> packets_;
};

}  // namespace lockstep::control
