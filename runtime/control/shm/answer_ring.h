// The ring in which one worker or client speaks, and which only the controller reads.
//
// What it writes is not trusted: the controller looks at each word once, copies it out, and
// checks the copy.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/record.h"
#include "runtime/control/shm/ring_memory.h"

namespace lockstep::control {

// Threads: one at a time. Ownership: the memory is borrowed.
class AnswerWriter {
 public:
  // `taken`: up to where the reader has read.
  AnswerWriter(const AnswerMemory& memory, const std::atomic<uint64_t>& taken)
      : memory_(memory), ring_(memory.ring()), taken_(taken) {}

  // Publishes `message` under its number. False: there is no room for it now, or ever.
  bool Write(uint64_t number, const Message& message);
  // Up to where all was published, and where the reader has read.
  uint64_t head() const { return head_; }
  uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
  bool is_all_read() const { return taken() == head_; }

 private:
  const AnswerMemory memory_;
  WordRing ring_;
  const std::atomic<uint64_t>& taken_;
  uint64_t head_ = 0;
};

// Threads: one at a time. Ownership: the memory is borrowed.
class AnswerReader {
 public:
  AnswerReader(const AnswerMemory& memory, std::atomic<uint64_t>& taken)
      : memory_(memory), taken_(taken) {
    taken_.store(0, std::memory_order_release);
  }

  // Takes the next message; false: there is none. kInvalidArgument: there is no message where the
  // writer says that one is; then nothing can be read any more.
  StatusOr<bool> Take(uint64_t* number, Message* message);
  bool HasInput() const {
    return position_ != memory_.header().head.load(std::memory_order_seq_cst);
  }

 private:
  const AnswerMemory memory_;
  std::atomic<uint64_t>& taken_;
  uint64_t position_ = 0;
};

}  // namespace lockstep::control
