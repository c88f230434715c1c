// Memory that NCCL has made for being registered: what lies there moves without a copy on the way.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::collective::nccl {

// Ownership: freed when this is destroyed, after all communicators that use it.
class RegisteredMemory {
 public:
  // Of `gpu`, which is bound to the calling thread. kUnimplemented: this NCCL is older than 2.19;
  // kResourceExhausted: the GPU has no such memory. `library` as in Options.
  static StatusOr<std::shared_ptr<RegisteredMemory>> Allocate(const std::string& library,
                                                              std::shared_ptr<cuda::Gpu> gpu,
                                                              size_t size_bytes);
  virtual ~RegisteredMemory() = default;

  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 protected:
  RegisteredMemory(void* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

 private:
  void* const data_;
  const size_t size_bytes_;
};

}  // namespace lockstep::collective::nccl
