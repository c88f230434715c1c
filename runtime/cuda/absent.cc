// What gpu.h and monitor.h promise, where the build has no CUDA.
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/monitor.h"

namespace lockstep::cuda {
namespace {

Status Absent() {
  return Unavailable(
      "this build has no CUDA: no toolkit was found when it was made, or LOCKSTEP_CUDA was \"no\"; "
      "run "
      "`tools/dev setup --cuda` and build again");
}

}  // namespace

Status Available() { return Absent(); }
StatusOr<std::vector<GpuFacts>> ListGpus() { return Absent(); }
StatusOr<std::shared_ptr<Gpu>> OpenGpu(int) { return Absent(); }
StatusOr<std::unique_ptr<Monitor>> OpenMonitor(const std::string& bus_id) {
  return Unavailable("the GPU at ", bus_id, " is not watched: this build has no CUDA");
}

}  // namespace lockstep::cuda
