#include "services/worker/host_tensor.h"

#include "runtime/base/device.h"

namespace lockstep::worker {

Status RequireHost(const tensor::Tensor& tensor, std::string_view role) {
  if (tensor.device().type == DeviceType::kCpu) [[likely]]
    return OkStatus();
  return InvalidArgument(role, " is on ", tensor.device(),
                         ", and this worker reaches host memory (cpu) only; let the module that "
                         "made it return a copy in host memory");
}

}  // namespace lockstep::worker
