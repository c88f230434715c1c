// One fake GPU: its memory, and what is in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace lockstep::fake_cuda {

// Memory that is mapped twice: at device addresses, where it must not be touched, and at host
// addresses, where the fake does.
//
// Threads: safe.
class Memory {
 public:
  explicit Memory(size_t size_bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A device address that is aligned to 512 bytes; null if there is no room.
  void* Allocate(size_t size_bytes);
  // Overwrites the memory and takes it back. False: nothing was allocated there.
  bool Free(void* address);

  bool Contains(const void* address) const {
    const auto* p = static_cast<const std::byte*>(address);
    return p >= device_view_ && p < device_view_ + size_bytes_;
  }
  void* HostView(const void* address) const {
    return host_view_ + (static_cast<const std::byte*>(address) - device_view_);
  }

  size_t size_bytes() const { return size_bytes_; }
  size_t allocated_bytes() const;

 private:
  const size_t size_bytes_;
  std::byte* device_view_ = nullptr;
  std::byte* host_view_ = nullptr;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;       // offset -> bytes; neighbours are merged
  std::map<size_t, size_t> allocated_;  // offset -> bytes
  size_t allocated_bytes_ = 0;
};

}  // namespace lockstep::fake_cuda
