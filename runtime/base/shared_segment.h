// A named piece of shared memory in /dev/shm.
//
// The creator holds a file lock for as long as it lives, so a segment whose owner was killed can be
// told from one in use, and is removed by the next process that sweeps. Names work across PID
// namespaces, wherever /dev/shm itself is shared.
//
// The name is only for finding it. A segment that is mapped goes on working when a process removes
// its name, as cleaners of temporary files do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace lockstep {

// Threads: immutable after creation, except Reserve(), which one thread calls at a time.
// Ownership: unmaps when destroyed; the creator's object removes the name too, if it is its own
//            still.
class SharedSegment {
 public:
  // Creates `name` (no slashes, starts with kNamePrefix) with room for `capacity_bytes` of address
  // space. Nothing is allocated before Reserve(). kAlreadyExists if a live process owns the name.
  static StatusOr<std::unique_ptr<SharedSegment>> Create(const std::string& name,
                                                         size_t capacity_bytes);

  // Maps a segment that another process (or this one) created. kNotFound if there is none: it then
  // lives on another host, or /dev/shm is not shared with its owner.
  static StatusOr<std::unique_ptr<SharedSegment>> Open(const std::string& name);

  // Removes every segment named with `prefix` whose owner is dead. Returns how many.
  static int Sweep(const std::string& prefix);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Makes the first `size_bytes` usable: the kernel sets the pages aside now, so that a full
  // /dev/shm is kResourceExhausted here and not a SIGBUS later. Never shrinks.
  Status Reserve(size_t size_bytes);

  // False once the process that created the segment has ended, or has destroyed its object. Works
  // for nameless segments too. Where the kernel cannot be asked (no file descriptor is left), true:
  // that says nothing about the owner. Takes a few system calls; safe from any thread.
  bool OwnerLives() const;

  // Whether the file belongs to this process's user, who alone can have mapped it then, but for
  // root.
  bool IsOurs() const;

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  size_t capacity_bytes() const { return capacity_bytes_; }

  bool Contains(const void* address) const {
    const auto* p = static_cast<const std::byte*>(address);
    return p >= data_ && p < data_ + capacity_bytes_;
  }

  static constexpr char kNamePrefix[] = "lockstep-";

 private:
  SharedSegment(std::string name, int fd, std::byte* data, size_t capacity_bytes, bool owner);

  const std::string name_;
  const int fd_;
  std::byte* const data_;
  const size_t capacity_bytes_;
  const bool owner_;
  size_t reserved_bytes_ = 0;
};

}  // namespace lockstep
