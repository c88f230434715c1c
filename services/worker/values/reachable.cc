#include "services/worker/values/reachable.h"

#include "runtime/base/device.h"

namespace lockstep::worker {

Status RequireReachable(const tensor::Processors& places, const tensor::Tensor& tensor,
                        std::string_view role) {
  if (places.Of(tensor.device()) != nullptr) [[likely]]
    return OkStatus();
  return InvalidArgument(
      role, " is on ", tensor.device(),
      ", and this worker reaches host memory (cpu) only; let the module that "
      "made it return a copy in host memory, or run the worker with device: cuda");
}

}  // namespace lockstep::worker
