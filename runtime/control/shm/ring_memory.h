// What lies where in the two kinds of shared memory of the rings. Each has one process that writes
// it:
//
//     broadcast memory   the controller's: header, a page of marks, the ring that all workers read,
//                        or one client
//     answer memory      one worker's or client's: header, the ring that only the controller reads
//
// Zeros are a ring in which nothing was written yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "runtime/control/shm/word_ring.h"

namespace lockstep::control {

inline constexpr size_t kRingPageBytes = 4096;
// What different threads write and read all the time lies this far apart: processors fetch lines in
// pairs.
inline constexpr size_t kRingLineBytes = 128;

static_assert(std::atomic<uint64_t>::is_always_lock_free, "peers share no locks");

// How a process sleeps. Its writer counts: the number is odd while it sleeps, or is about to: then
// it looks once more whether something has come. So whoever publishes first and then finds an even
// number need not wake it. All sequentially consistent.
struct alignas(kRingLineBytes) SleepMark {
  std::atomic<uint64_t> count;

  void Begin() { count.fetch_add(1, std::memory_order_seq_cst); }
  void End() { count.fetch_add(1, std::memory_order_seq_cst); }
};

// Wakes the owner of a mark, once for each time that it sleeps.
class Waker {
 public:
  explicit Waker(const SleepMark& mark) : mark_(&mark) {}
  // True if its owner is to be woken.
  bool MustWake() {
    const uint64_t now = mark_->count.load(std::memory_order_seq_cst);
    if ((now & 1) == 0 || now == woken_) return false;
    woken_ = now;
    return true;
  }

 private:
  const SleepMark* mark_;
  uint64_t woken_ = 0;
};

// Pointers into broadcast memory.
class BroadcastMemory {
 public:
  struct Header {
    // Words published; what is before `floor` may be written over at any moment.
    alignas(kRingLineBytes) std::atomic<uint64_t> head;
    std::atomic<uint64_t> floor;
    SleepMark sleep;
    // What readers are to have read for the controller to go on; 0: it does not wait for them.
    std::atomic<uint64_t> wanted;
  };
  // Of one reader: up to where the controller has read what it answers.
  struct Taken {
    alignas(kRingLineBytes) std::atomic<uint64_t> words;
  };

  static size_t SizeBytes(int slots, uint64_t capacity_words) {
    return MarksBytes(slots) + capacity_words * kRingWordBytes;
  }
  // `base`: so many bytes, at a page's beginning; borrowed.
  BroadcastMemory(std::byte* base, int slots, uint64_t capacity_words)
      : header_(std::launder(reinterpret_cast<Header*>(base))),
        taken_(std::launder(reinterpret_cast<Taken*>(base + kRingPageBytes))),
        ring_(std::launder(reinterpret_cast<std::atomic<uint64_t>*>(base + MarksBytes(slots))),
              capacity_words) {}

  Header& header() const { return *header_; }
  std::atomic<uint64_t>& taken(int slot) const { return taken_[slot].words; }
  const WordRing& ring() const { return ring_; }

 private:
  static size_t MarksBytes(int slots) {
    const size_t bytes = static_cast<size_t>(slots) * sizeof(Taken);
    return kRingPageBytes + (bytes + kRingPageBytes - 1) / kRingPageBytes * kRingPageBytes;
  }

  Header* header_;
  Taken* taken_;
  WordRing ring_;
};
static_assert(sizeof(BroadcastMemory::Header) <= kRingPageBytes);

// Pointers into answer memory.
class AnswerMemory {
 public:
  struct Header {
    alignas(kRingLineBytes) std::atomic<uint64_t> head;  // words published
    alignas(
        kRingLineBytes) std::atomic<uint64_t> read;  // of the broadcast ring: its position there
    SleepMark sleep;
  };

  static size_t SizeBytes(uint64_t capacity_words) {
    return kRingPageBytes + capacity_words * kRingWordBytes;
  }
  AnswerMemory(std::byte* base, uint64_t capacity_words)
      : header_(std::launder(reinterpret_cast<Header*>(base))),
        ring_(std::launder(reinterpret_cast<std::atomic<uint64_t>*>(base + kRingPageBytes)),
              capacity_words) {}

  Header& header() const { return *header_; }
  const WordRing& ring() const { return ring_; }

 private:
  Header* header_;
  WordRing ring_;
};
static_assert(sizeof(AnswerMemory::Header) <= kRingPageBytes);

}  // namespace lockstep::control
