// Memory that clients may still write to which have no session here any more.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/process.h"
#include "runtime/registers/value.h"

namespace lockstep::worker {

// A client that fell silent has lost its session, but it may live, and be in the middle of a copy
// into a tensor that it located. One that has closed its session may have kept a host tensor that
// was lent to it. What they know is kept until their processes have ended, or do not map the arena
// any more.
//
// Threads: one.
class LentMemoryReclaimer {
 public:
  void Keep(WatchedProcess client, std::vector<registers::Value> tensors);
  // Frees what belonged to processes that have ended since.
  void FreeEnded();
  // ... and to those that do not map the file `arena`. Reads for each what the kernel says of it.
  void FreeUnreachable(std::string_view arena);

  // Whatever a client has said of itself: a process that does not map the memory does not write to
  // it. One that may not be looked at might.
  static bool MayWriteTo(std::string_view arena, const WatchedProcess& client);

  bool empty() const { return entries_.empty(); }
  // One for each process that is waited for, readable once it has ended; valid until the next
  // change.
  const std::vector<int>& descriptors() const { return descriptors_; }

 private:
  struct Entry {
    WatchedProcess client;
    std::vector<registers::Value> tensors;
  };
  template <typename Is>
  void FreeThoseThat(Is is);
  void ListDescriptors();

  std::vector<Entry> entries_;
  std::vector<int> descriptors_;
};

}  // namespace lockstep::worker
