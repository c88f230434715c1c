// Kernels of one struct of parameters (kernels/kernel.h), put into a stream.
#pragma once

#include <cstdint>

#include "runtime/cuda/driver/library.h"

namespace lockstep::cuda {

// By at least `threads` threads, or fewer that take several turns. `parameters` is copied.
CUresult LaunchKernel(const Library& library, CUfunction kernel, uint64_t threads,
                      const void* parameters, CUstream stream);

}  // namespace lockstep::cuda
