// Blocks of memory that tensors share, and what hands them out.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/base/device.h"
#include "runtime/base/status.h"

namespace lockstep::tensor {

// Memory with an owner. Tensors (and views of them) hold it by shared_ptr; the last one to go
// returns it to wherever it came from.
//
// Threads: the object is immutable; the memory is the users' affair.
class Storage {
 public:
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }
  // True if the memory may go back while a GPU still works on it: its next user comes later
  // in the GPU's order. Other memory of a GPU is held until the work is done.
  virtual bool GoesBackInOrder() const { return false; }
  // True if the memory is counted for itself: the tensors in it are not counted besides.
  bool is_counted_apart() const { return is_counted_apart_; }

 protected:
  Storage(void* data, size_t size_bytes, Device device, bool is_counted_apart = false)
      : data_(data),
        size_bytes_(size_bytes),
        device_(device),
        is_counted_apart_(is_counted_apart) {}

 private:
  void* const data_;
  const size_t size_bytes_;
  const Device device_;
  const bool is_counted_apart_;
};

struct AllocatorStats {
  size_t live_bytes = 0;      // handed out and not yet returned
  size_t peak_bytes = 0;      // the most that live_bytes ever was
  size_t reserved_bytes = 0;  // taken from the operating system, free or not
  size_t live_blocks = 0;
  size_t allocations = 0;  // since the start
};

// Hands out storage.
//
// Threads: safe. Storage may be released on any thread.
// Errors: kResourceExhausted, with the sizes wanted, live and available.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // At least `size_bytes` (0 is fine), aligned to kAlignment, contents undefined.
  virtual StatusOr<std::shared_ptr<Storage>> Allocate(size_t size_bytes) = 0;
  virtual AllocatorStats Stats() const = 0;

  // One cache line, and what DLPack asks for at most (256 would be asked of GPU memory).
  static constexpr size_t kAlignment = 64;
};

// Of the process's own memory, which no peer maps: for tests, and for tools that only look at
// tensors. Workers use an Arena, which keeps freed pages warm. Storages may outlive the allocator.
std::shared_ptr<Allocator> NewHeapAllocator();

}  // namespace lockstep::tensor
