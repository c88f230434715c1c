// The bytes of a ring: words in shared memory, which are copied in and out one by one.
//
// Positions count words from the ring's beginning and never go back; a position's place in memory
// is its rest by the capacity. Every word is an atomic of its own: a reader may read what is being
// written over, and finds out afterwards that it must not use it. That costs nothing where words
// are copied anyway.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep::control {

inline constexpr size_t kRingWordBytes = sizeof(uint64_t);

constexpr uint64_t WordsFor(size_t size_bytes) {
  return (size_bytes + kRingWordBytes - 1) / kRingWordBytes;
}

// Threads: as those who use it agree. Ownership: the memory is borrowed.
class WordRing {
 public:
  // `capacity`: words, a power of two.
  WordRing(std::atomic<uint64_t>* words, uint64_t capacity) : words_(words), mask_(capacity - 1) {}

  uint64_t capacity() const { return mask_ + 1; }

  void Store(uint64_t at, uint64_t word) {
    words_[at & mask_].store(word, std::memory_order_relaxed);
  }
  uint64_t Load(uint64_t at) const { return words_[at & mask_].load(std::memory_order_relaxed); }

  // The last word is filled up with zeros.
  void Write(uint64_t at, const std::byte* bytes, size_t size_bytes) {
    for (; size_bytes >= kRingWordBytes; size_bytes -= kRingWordBytes, bytes += kRingWordBytes) {
      uint64_t word = 0;
      std::memcpy(&word, bytes, kRingWordBytes);
      Store(at++, word);
    }
    if (size_bytes == 0) return;
    uint64_t last = 0;
    std::memcpy(&last, bytes, size_bytes);
    Store(at, last);
  }
  void Read(uint64_t at, uint64_t* words, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) words[i] = Load(at + i);
  }

 private:
  std::atomic<uint64_t>* words_;
  uint64_t mask_;
};

}  // namespace lockstep::control
