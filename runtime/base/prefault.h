// Pages of shared memory, mapped before they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/base/shared_segment.h"

namespace lockstep {

// The first access to each page of a mapping is a fault, which takes longer than to write the page.
// The kernel maps many pages at once in less than half of the time; and another thread can have it
// do so while the program fills the first ones. What was mapped once is not asked for again.
//
// Where the kernel cannot do it (before Linux 5.14), pages are mapped as they are used.
//
// Threads: safe. Contents are never changed, so nothing is wrong with memory that has another use
// by the time.
class Prefault {
 public:
  Prefault() = default;
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;
  // Waits for the piece that is being mapped.
  ~Prefault();

  // [memory, memory + size_bytes) lies in `segment`. Returns when it is mapped.
  void Now(const std::shared_ptr<const SharedSegment>& segment, std::byte* memory,
           size_t size_bytes);
  // Returns at once; a thread of low priority, which lives for as long as there is something to do,
  // maps it.
  void InBackground(const std::shared_ptr<const SharedSegment>& segment, std::byte* memory,
                    size_t size_bytes);
  // What is waiting for the thread is given up, and what is known of segments is forgotten.
  void Stop();

 private:
  struct Piece {
    std::shared_ptr<const SharedSegment> segment;
    std::byte* memory = nullptr;
    size_t size_bytes = 0;
  };
  // The pieces of it that are not known to be mapped, in order. They are taken to be mapped from
  // here on.
  std::vector<Piece> TakeUnmapped(const std::shared_ptr<const SharedSegment>& segment,
                                  std::byte* memory, size_t size_bytes);
  void Map(const Piece& piece);
  void Run();

  std::mutex mutex_;
  bool is_possible_ = true;
  bool is_running_ = false;  // the thread has not seen that there is nothing to do
  // By segment: for each of its units, which pages are mapped.
  std::unordered_map<const SharedSegment*, std::vector<uint64_t>> mapped_;
  std::deque<Piece> waiting_;
  std::thread thread_;
};

}  // namespace lockstep
