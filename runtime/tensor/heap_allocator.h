// Tensors in the process's own memory, which no peer maps: for tests, and for tools that only look
// at tensors. Workers use an Arena, which keeps freed pages warm.
#pragma once

#include <memory>

#include "runtime/tensor/storage.h"

namespace lockstep::tensor {

// Storages may outlive the allocator.
std::shared_ptr<Allocator> NewHeapAllocator();

}  // namespace lockstep::tensor
