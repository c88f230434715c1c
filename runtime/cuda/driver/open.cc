// What gpu.h promises, where the build has CUDA.
#include <utility>

#include "runtime/cuda/driver/driver_gpu.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::cuda {
namespace {

StatusOr<int> CountGpus(const Library& cuda) {
  int count = 0;
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(cuda, cuda.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

}  // namespace

Status Available() {
  LOCKSTEP_ASSIGN_OR_RETURN(const Library* const cuda, LoadLibrary());
  LOCKSTEP_ASSIGN_OR_RETURN(const int count, CountGpus(*cuda));
  if (count > 0) return OkStatus();
  return Unavailable(
      "this process sees no GPU; does nvidia-smi list one, and does CUDA_VISIBLE_DEVICES "
      "name it?");
}

StatusOr<std::vector<GpuFacts>> ListGpus() {
  LOCKSTEP_RETURN_IF_ERROR(Available());
  LOCKSTEP_ASSIGN_OR_RETURN(const Library* const cuda, LoadLibrary());
  LOCKSTEP_ASSIGN_OR_RETURN(const int count, CountGpus(*cuda));
  std::vector<GpuFacts> gpus;
  for (int index = 0; index < count; ++index) {
    LOCKSTEP_ASSIGN_OR_RETURN(GpuFacts facts, FactsOf(*cuda, index));
    gpus.push_back(std::move(facts));
  }
  return gpus;
}

StatusOr<std::shared_ptr<Gpu>> OpenGpu(int index) {
  LOCKSTEP_RETURN_IF_ERROR(Available());
  LOCKSTEP_ASSIGN_OR_RETURN(const Library* const cuda, LoadLibrary());
  LOCKSTEP_ASSIGN_OR_RETURN(const int count, CountGpus(*cuda));
  if (index < 0 || index >= count) {
    return NotFound("there is no GPU ", index, ": this process sees ", count, ", counted from 0");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Gpu> gpu, DriverGpu::Open(*cuda, index));
  LOCKSTEP_RETURN_IF_ERROR(gpu->Bind());
  return gpu;
}

}  // namespace lockstep::cuda
