// Memory that a communicator works in: others' data, and what lies between two stages.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "runtime/base/status.h"

namespace lockstep::collective {

// Grows to what the largest operation needs, and is kept for the next ones.
class Workspace {
 public:
  // `size_bytes` or more, of any content, until the next call. kResourceExhausted: there is not as
  // much to be had.
  StatusOr<std::byte*> AtLeast(size_t size_bytes) {
    if (size_bytes > size_bytes_) {
      size_bytes_ = 0;
      memory_.reset();  // or both would be needed at once
      memory_.reset(new (std::nothrow) std::byte[size_bytes]);
      if (memory_ == nullptr) {
        return ResourceExhausted("there is no memory for the ", size_bytes,
                                 " bytes that the operation works in; move less at once, or give "
                                 "the process more memory");
      }
      size_bytes_ = size_bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t size_bytes_ = 0;
};

}  // namespace lockstep::collective
