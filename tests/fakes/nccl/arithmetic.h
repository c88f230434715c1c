// What the fake NCCL computes: on the CPU, in rank order, 16-bit floats in float.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

#include "runtime/base/dtype.h"

namespace lockstep::fake_nccl {

DType DTypeOf(ncclDataType_t type);

// All ranks' `parts` of `count` elements become `out`.
void Reduce(const std::vector<const std::byte*>& parts, std::byte* out, size_t count, DType dtype,
            ncclRedOp_t op);

}  // namespace lockstep::fake_nccl
