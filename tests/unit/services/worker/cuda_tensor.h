// A tensor that the worker must not read.
#pragma once

#include <memory>

#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// float32 [4] on cuda:3, at an address that nothing can be read from.
inline tensor::Tensor CudaTensor() {
  class Elsewhere final : public tensor::Storage {
   public:
    Elsewhere() : Storage(reinterpret_cast<void*>(64), 16, Device{DeviceType::kCuda, 3}) {}
  };
  return *tensor::Tensor::FromStorage(std::make_shared<Elsewhere>(), 0, DType::kFloat32, {4});
}

}  // namespace lockstep::worker
