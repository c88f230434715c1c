// What monitor.h promises, where the build has no CUDA.
#include "runtime/cuda/monitor.h"

namespace lockstep::cuda {

StatusOr<std::unique_ptr<Monitor>> OpenMonitor(const std::string& bus_id) {
  return Unavailable("the GPU at ", bus_id, " is not watched: this build has no CUDA");
}

}  // namespace lockstep::cuda
