// Immutable bytes with shared ownership: the parts of a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace lockstep::control {

// Copies share the bytes. A frame can hold bytes of anything: a buffer of the sender, or a message
// of the transport that it was received with.
//
// Threads: as safe as a shared_ptr; the bytes never change.
class Frame {
 public:
  Frame() = default;
  // `owner` keeps [data, data + size_bytes) alive.
  Frame(std::shared_ptr<const void> owner, const void* data, size_t size_bytes)
      : owner_(std::move(owner)), data_(static_cast<const std::byte*>(data)), size_(size_bytes) {}

  static Frame Copy(const void* data, size_t size_bytes) {
    auto bytes = std::make_shared_for_overwrite<uint64_t[]>((size_bytes + 7) / 8);
    if (size_bytes > 0) std::memcpy(bytes.get(), data, size_bytes);
    const void* start = bytes.get();
    return Frame(std::move(bytes), start, size_bytes);
  }

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// What is sent and received as one: all frames or none.
using Message = absl::InlinedVector<Frame, 2>;

}  // namespace lockstep::control
