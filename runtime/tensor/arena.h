// The memory of one rank's CPU tensors, which its peers on the host map too.
//
// An arena is one shared-memory segment: first a fixed control area that the shared-memory
// communicator keeps its mailboxes in, then the heap that a pool allocator hands tensors out from.
// Because every rank maps every arena, a collective reads and writes a peer's register directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/shared_segment.h"
#include "runtime/tensor/storage.h"

namespace lockstep::tensor {

// What errors tell to raise when an arena is full.
inline constexpr char kArenaSetting[] =
    "arena_bytes, in the workers' configuration or LocalClusterOptions";

struct ArenaOptions {
  std::string name;                          // SharedSegment name, unique on the host
  size_t capacity_bytes = size_t{16} << 30;  // address space and upper bound, not memory
  size_t control_bytes = size_t{1} << 20;    // the control area at offset 0, zero at first
};

// Threads: safe (see Allocator). Ownership: storages keep the arena alive, so it may be dropped
// while tensors still exist.
class Arena : public Allocator, public std::enable_shared_from_this<Arena> {
 public:
  static StatusOr<std::shared_ptr<Arena>> Create(const ArenaOptions& options);

  virtual const std::string& name() const = 0;
  virtual std::byte* base() const = 0;
  virtual size_t capacity_bytes() const = 0;
  virtual std::byte* control() const = 0;  // == base()
  virtual size_t control_bytes() const = 0;

  // Keeps the block that `address` lies in from being handed out again for as long as `in_use()`,
  // also when its storage is released: for memory that a peer without a storage may still write
  // to. `in_use` is asked when memory is wanted and none is free, on whichever thread wants it; it
  // does not block, nor use this arena. Nothing happens if no live block is there.
  virtual void HoldBack(const void* address, std::function<bool()> in_use) = 0;

  bool Contains(const void* address) const {
    const auto* p = static_cast<const std::byte*>(address);
    return p >= base() && p < base() + capacity_bytes();
  }
  // Distance of `address` from the start of the arena; the same on every rank that maps it.
  uint64_t OffsetOf(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - base());
  }
};

}  // namespace lockstep::tensor
