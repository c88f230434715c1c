#include "runtime/cuda/driver/driver_gpu.h"

#include <string>
#include <utility>

#include "runtime/cuda/driver/driver_memory.h"
#include "runtime/cuda/driver/driver_stream.h"
#include "runtime/cuda/kernels/image.h"

namespace lockstep::cuda {

namespace {

// As nvidia-smi shows it, after "GPU-" or "MIG-".
std::string TextOf(const CUuuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

class DriverKernelModule final : public KernelModule {
 public:
  DriverKernelModule(std::shared_ptr<DriverGpu> gpu, CUmodule module)
      : gpu_(std::move(gpu)), module_(module) {}
  ~DriverKernelModule() override {
    // Of whatever thread held it last.
    if (gpu_->Bind().ok())
      (void)gpu_->Check(gpu_->cuda().cuModuleUnload(module_), "cuModuleUnload");
  }
  StatusOr<Kernel> Find(const std::string& name) override {
    Kernel kernel;
    LOCKSTEP_RETURN_IF_ERROR(Annotate(
        gpu_->Check(gpu_->cuda().cuModuleGetFunction(&kernel.handle, module_, name.c_str()),
                    "cuModuleGetFunction"),
        name));
    return kernel;
  }

 private:
  const std::shared_ptr<DriverGpu> gpu_;
  const CUmodule module_;
};

}  // namespace

StatusOr<GpuFacts> FactsOf(const Library& cuda, int index) {
  CUdevice device = 0;
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(cuda, cuda.cuDeviceGet(&device, index), "cuDeviceGet"));
  GpuFacts facts;
  facts.index = index;
  char text[256] = {};
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(cuda, cuda.cuDeviceGetName(text, sizeof text, device), "cuDeviceGetName"));
  facts.name = text;
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(cuda, cuda.cuDeviceGetPCIBusId(text, sizeof text, device), "cuDeviceGetPCIBusId"));
  facts.bus_id = text;
  CUuuid uuid{};
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(cuda, cuda.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid"));
  facts.uuid = TextOf(uuid);
  const std::pair<CUdevice_attribute, int*> attributes[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &facts.major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &facts.minor}};
  for (const auto& [attribute, value] : attributes) {
    LOCKSTEP_RETURN_IF_ERROR(ToStatus(cuda, cuda.cuDeviceGetAttribute(value, attribute, device),
                                      "cuDeviceGetAttribute"));
  }
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(cuda, cuda.cuDeviceTotalMem(&facts.memory_bytes, device), "cuDeviceTotalMem"));
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(cuda, cuda.cuDriverGetVersion(&facts.driver_version), "cuDriverGetVersion"));
  return facts;
}

StatusOr<std::shared_ptr<DriverGpu>> DriverGpu::Open(const Library& cuda, int index) {
  LOCKSTEP_ASSIGN_OR_RETURN(GpuFacts facts, FactsOf(cuda, index));
  CUdevice device = 0;
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(cuda, cuda.cuDeviceGet(&device, index), "cuDeviceGet"));
  CUcontext context = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(Annotate(
      ToStatus(cuda, cuda.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"),
      "GPU " + std::to_string(index) + " (" + facts.name + ", " + facts.bus_id +
          ") cannot be used"));
  return std::shared_ptr<DriverGpu>(new DriverGpu(cuda, std::move(facts), device, context));
}

DriverGpu::~DriverGpu() {
  if (kernels_ != nullptr) (void)cuda_.cuModuleUnload(kernels_);
  (void)cuda_.cuDevicePrimaryCtxRelease(device_);
}

Status DriverGpu::Refused(CUresult result, const char* call) {
  Status status = Annotate(ToStatus(cuda_, result, call), "GPU " + std::to_string(facts_.index));
  if (LosesContext(result)) {
    std::lock_guard lock(mutex_);
    if (loss_.ok()) loss_ = status;
  }
  return status;
}

Status DriverGpu::Loss() const {
  std::lock_guard lock(mutex_);
  return loss_;
}

Status DriverGpu::Bind() { return Check(cuda_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

StatusOr<std::unique_ptr<Stream>> DriverGpu::NewStream() {
  CUstream stream = nullptr;
  // The default stream of modules that know no better would wait for it, and it for them.
  LOCKSTEP_RETURN_IF_ERROR(
      Check(cuda_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, /*priority=*/0),
            "cuStreamCreateWithPriority"));
  return std::make_unique<DriverStream>(self(), stream);
}

StatusOr<std::unique_ptr<Event>> DriverGpu::NewEvent(bool timed) {
  CUevent event = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      Check(cuda_.cuEventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
            "cuEventCreate"));
  return std::make_unique<DriverEvent>(self(), event);
}

StatusOr<std::unique_ptr<MemoryPool>> DriverGpu::NewPool() {
  return DriverPool::Create(self(), device_);
}

StatusOr<void*> DriverGpu::AllocateHost(size_t size_bytes) {
  void* address = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(Check(
      cuda_.cuMemHostAlloc(&address, size_bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc"));
  return address;
}

void DriverGpu::FreeHost(void* address) {
  (void)Check(cuda_.cuMemFreeHost(address), "cuMemFreeHost");
}

StatusOr<Kernel> DriverGpu::FindKernel(const char* name) {
  CUmodule module = nullptr;
  {
    std::lock_guard lock(mutex_);
    module = kernels_;
  }
  if (module == nullptr) {
    const CUresult loaded = cuda_.cuModuleLoadData(&module, KernelImage());
    if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      return Unimplemented("Lockstep's kernels are not compiled for a GPU of compute capability ",
                           facts_.major, ".", facts_.minor, " (", facts_.name,
                           ") and this driver; third_party/cuda/cuda.bzl says for which they are");
    }
    LOCKSTEP_RETURN_IF_ERROR(Check(loaded, "cuModuleLoadData"));
    std::lock_guard lock(mutex_);
    if (kernels_ != nullptr) (void)cuda_.cuModuleUnload(std::exchange(module, kernels_));
    kernels_ = module;
  }
  Kernel kernel;
  LOCKSTEP_RETURN_IF_ERROR(Annotate(
      Check(cuda_.cuModuleGetFunction(&kernel.handle, module, name), "cuModuleGetFunction"), name));
  return kernel;
}

StatusOr<std::unique_ptr<KernelModule>> DriverGpu::LoadKernels(absl::Span<const std::byte> image) {
  // Text is to end with a zero byte.
  std::vector<std::byte> ended(image.begin(), image.end());
  ended.push_back(std::byte{0});
  CUmodule module = nullptr;
  const CUresult loaded = cuda_.cuModuleLoadData(&module, ended.data());
  if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    return Unimplemented("what was compiled does not run on GPU ", facts_.index, " (", facts_.name,
                         ", compute capability ", facts_.major, ".", facts_.minor,
                         ") with this driver, which knows CUDA ",
                         CudaVersionText(facts_.driver_version));
  }
  LOCKSTEP_RETURN_IF_ERROR(Check(loaded, "cuModuleLoadData"));
  return std::unique_ptr<KernelModule>(std::make_unique<DriverKernelModule>(self(), module));
}

StatusOr<MemoryInfo> DriverGpu::Memory() const {
  MemoryInfo info;
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(cuda_, cuda_.cuMemGetInfo(&info.free_bytes, &info.total_bytes), "cuMemGetInfo"));
  return info;
}

}  // namespace lockstep::cuda
