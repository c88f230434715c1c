// Shared memory without a name: only a process that is handed its descriptor can map it.
//
// Its size is sealed, so that no peer can make an access fail by cutting it off.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"
#include "runtime/control/shm/descriptor.h"

namespace lockstep::control {

// Of `size_bytes`, all zeros; pages are taken when they are first written. kUnavailable: the kernel
// does not give any.
StatusOr<Descriptor> CreateMemory(size_t size_bytes);
// From now on nobody can map it to write, also not by its descriptor; mappings that there are go on
// writing. kUnavailable: this kernel cannot (before Linux 5.1).
Status SealWrites(const Descriptor& memory);

// A mapping. Threads: immutable; what it maps is up to its users.
class MappedMemory {
 public:
  enum class Access { kRead, kReadAndWrite };
  // Of all `size_bytes` of `memory`, whose descriptor may be closed then. kInvalidArgument: it has
  // not that size, or may lose it; kUnavailable: it cannot be mapped.
  static StatusOr<MappedMemory> Map(const Descriptor& memory, size_t size_bytes, Access access);

  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  std::byte* data() const { return data_; }

 private:
  MappedMemory(std::byte* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_;
  size_t size_bytes_;
};

}  // namespace lockstep::control
