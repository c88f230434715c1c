// What the worker itself reads and writes has to lie where it works.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// OK if the worker can reach the memory of `tensor`. A module may return tensors that it cannot:
// those are passed to modules again, and are nothing but a handle here. kInvalidArgument then names
// the tensor by its `role` ("the source"), its device, and the way out.
Status RequireReachable(const tensor::Processors& places, const tensor::Tensor& tensor,
                        std::string_view role);

}  // namespace lockstep::worker
