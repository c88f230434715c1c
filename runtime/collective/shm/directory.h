// The directory in an arena's control area: which communicator's block lies where.
//
// The arena's owner opens entries; every other member of the communicator finds the entry by its
// key, which counts it in, and counts itself out when it closes. Once no member is left, the owner
// uses entry and block again: until then some member may still be reading the block. A member that
// never came was never counted in, so it holds nothing up. (A member that was killed never counts
// itself out; what it had found stays for as long as the arena.)
//
//     Header | Entry[capacity] | blocks ...
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/base/status.h"

namespace lockstep::collective::shm {

// Threads: Open() is the owner's, one thread at a time; the others are safe, from any process.
// Ownership: a borrowed view of the control area.
class Directory {
 public:
  struct Found {
    int entry = 0;
    std::byte* block = nullptr;
  };

  explicit Directory(std::byte* control) : control_(control) {}

  // Makes the area of `control_bytes` ready, unless it is. `process` identifies the owner's
  // process.
  void Initialise(size_t control_bytes, uint64_t process);
  // False before the owner has initialised it.
  bool IsReady() const;
  uint64_t process() const;

  // Opens an entry for the communicator `key` (not 0) with a zeroed block, and counts the owner in.
  StatusOr<Found> Open(uint64_t key, size_t block_bytes);

  // The entry of `key`, if its owner has opened it and no member has closed it. Counts the caller
  // in.
  std::optional<Found> Find(uint64_t key);

  // Counts another user in of what the caller, which is counted in, has found.
  void CountIn(int entry);

  // Counts the caller out, and hides the entry: no new member may join what one member has closed.
  void Close(int entry);
  // The same for the member that opened it.
  void CloseAsOwner(int entry);

  // Blocks that the owner has closed and other members have not: room to come.
  int CountGivenUp() const;

 private:
  struct Header;
  struct Entry;

  Header& header() const;
  Entry* entries() const;
  // Gives entries back that are no longer used.
  void Reclaim();
  // Where a block of `block_bytes` fits between the others; 0 if nowhere.
  size_t FindGap(size_t block_bytes) const;

  std::byte* control_;
};

}  // namespace lockstep::collective::shm
