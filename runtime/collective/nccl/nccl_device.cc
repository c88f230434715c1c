#include "runtime/collective/nccl/nccl_device.h"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/collective/nccl/endings.h"
#include "runtime/collective/nccl/memory.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/gpu_processor.h"
#include "runtime/cuda/monitor.h"
#include "runtime/cuda/region.h"
#include "runtime/cuda/stream_pair.h"

namespace lockstep::collective::nccl {
namespace {

// What NCCL may take at a time: buffers for each channel and peer, and for each algorithm.
constexpr size_t kRoomForNccl = size_t{1} << 30;
// With less than this it is likely to fail: only then is it worth waiting for kernels.
constexpr size_t kLeastForNccl = size_t{64} << 20;

DeviceFacts FactsOf(const cuda::GpuFacts& gpu, const std::string& nccl_version) {
  DeviceFacts facts;
  facts.index = gpu.index;
  facts.name = gpu.name;
  facts.bus_id = gpu.bus_id;
  facts.uuid = gpu.uuid;
  facts.capability = std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
  facts.driver_api = cuda::CudaVersionText(gpu.driver_version);
  facts.collectives_library = nccl_version;
  facts.memory_bytes = gpu.memory_bytes;
  return facts;
}

// By NVML, which is opened with the first reading.
class NcclDeviceMonitor final : public DeviceMonitor {
 public:
  NcclDeviceMonitor(std::shared_ptr<cuda::StreamPair> streams,
                    std::shared_ptr<cuda::DeviceAllocator> allocator,
                    std::shared_ptr<CommunicatorSlots> slots)
      : streams_(std::move(streams)), allocator_(std::move(allocator)), slots_(std::move(slots)) {}

  void Read(DeviceReport* report) override {
    if (!std::exchange(is_open_, true)) Open(report);
    report->memory = allocator_->Stats();
    report->communicators = slots_->taken();
    if (const cuda::Region* const region = allocator_->region()) {
      report->registered_bytes = region->size_bytes();
      report->registered_live_bytes = region->live_bytes();
    }
    // An error of the GPU is the executing thread's business.
    if (const auto waits = streams_->Waits(); waits.ok()) report->waits = *waits;
    if (monitor_ == nullptr) return;
    report->health = monitor_->Read();
    for (const uint64_t xid : monitor_->TakeXids()) {
      ++report->faults[xid];
      log::Error(Name(), " reports XID ", xid,
                 "; what it means, and whether the GPU is to be replaced: "
                 "https://docs.nvidia.com/deploy/xid-errors/");
    }
  }

 private:
  std::string Name() const {
    const cuda::GpuFacts& facts = streams_->gpu().facts();
    return "GPU " + std::to_string(facts.index) + " (" + facts.bus_id + ")";
  }
  void Open(DeviceReport* report) {
    const Status bound = streams_->gpu().Bind();
    if (!bound.ok()) log::Warn(Name(), " is not watched: ", Message(bound));
    auto monitor = cuda::OpenMonitor(streams_->gpu().facts().bus_id);
    if (!monitor.ok()) {
      log::Warn(Name(), " is not monitored: ", Message(monitor.status()));
      return;
    }
    monitor_ = *std::move(monitor);
    report->is_monitored = true;
    report->driver_version = monitor_->DriverVersion();
  }

  const std::shared_ptr<cuda::StreamPair> streams_;
  const std::shared_ptr<cuda::DeviceAllocator> allocator_;
  const std::shared_ptr<CommunicatorSlots> slots_;
  std::unique_ptr<cuda::Monitor> monitor_;  // null: there is none
  bool is_open_ = false;
};

class NcclDevice final : public Accelerator {
 public:
  NcclDevice(DeviceFacts facts, std::shared_ptr<cuda::StreamPair> streams,
             std::shared_ptr<cuda::DeviceAllocator> allocator,
             std::unique_ptr<cuda::GpuProcessor> processor,
             std::shared_ptr<RegisteredMemory> registered, int max_communicators)
      : facts_(std::move(facts)),
        streams_(std::move(streams)),
        allocator_(std::move(allocator)),
        processor_(std::move(processor)),
        registered_(std::move(registered)),
        slots_(std::make_shared<CommunicatorSlots>(max_communicators)) {}

  const DeviceFacts& facts() const override { return facts_; }
  Status Bind() override { return streams_->gpu().Bind(); }
  Status Loss() const override { return streams_->gpu().Loss(); }

  DeviceProcessor& processor() override { return *processor_; }
  StatusOr<std::unique_ptr<DeviceProcessor>> NewProcessor() override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto processor, cuda::GpuProcessor::Create(streams_, allocator_));
    return std::unique_ptr<DeviceProcessor>(std::move(processor));
  }
  std::unique_ptr<DeviceMonitor> NewMonitor() override {
    return std::make_unique<NcclDeviceMonitor>(streams_, allocator_, slots_);
  }

  StatusOr<std::unique_ptr<DeviceKernel>> LoadKernel(absl::Span<const std::byte> image,
                                                     const std::string& name) override {
    return cuda::LoadKernel(streams_->gpu(), image, name);
  }

  void* compute_stream() const override { return streams_->compute().handle(); }
  Status BeforeCompute(const MemoryRange& memory) override {
    return streams_->BeforeCompute(memory);
  }
  Status BeforeComputeOnAnything() override { return streams_->BeforeComputeOnAnything(); }
  Status MarkCompute(std::shared_ptr<DeviceEvent>* event) override {
    if (*event == nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Event> made, streams_->gpu().NewEvent());
      *event = std::move(made);
    }
    return streams_->compute().Record(static_cast<cuda::Event&>(**event));
  }
  CommunicationSpan TakeLastCommunication() override { return streams_->TakeLastCommunication(); }

  Status BeginCapture() override { return streams_->BeginCapture(); }
  StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto graph, streams_->EndCapture());
    return std::unique_ptr<DeviceGraph>(std::move(graph));
  }
  Status Launch(DeviceGraph& graph, absl::Span<const MemoryRange> memory) override {
    return streams_->Launch(static_cast<cuda::StreamPair::CapturedGraph&>(graph), memory);
  }

  void AbortAfter(std::shared_ptr<DeviceConnection> connection, std::shared_ptr<DeviceEvent> before,
                  Status cause) override {
    nccl::AbortAfter(std::move(connection), streams_->gpu().shared_from_this(), std::move(before),
                     std::move(cause));
  }

  void GiveTo(Options* options) {
    options->streams = streams_;
    options->allocator = allocator_->BesideRegion();
    options->registered = registered_;
    options->slots = slots_;
    options->make_room = [allocator = allocator_](const WaitLimit& limit) {
      allocator->MakeRoom(kRoomForNccl, kLeastForNccl, limit);
    };
  }

 private:
  const DeviceFacts facts_;
  const std::shared_ptr<cuda::StreamPair> streams_;
  const std::shared_ptr<cuda::DeviceAllocator> allocator_;
  const std::unique_ptr<cuda::GpuProcessor> processor_;
  const std::shared_ptr<RegisteredMemory> registered_;  // null: none
  const std::shared_ptr<CommunicatorSlots> slots_;
};

}  // namespace

StatusOr<std::vector<DeviceFacts>> ListDevices(const std::string& library) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<cuda::GpuFacts> gpus, cuda::ListGpus());
  const std::string version = Version(library);
  std::vector<DeviceFacts> devices;
  for (const cuda::GpuFacts& gpu : gpus) devices.push_back(FactsOf(gpu, version));
  return devices;
}

StatusOr<std::shared_ptr<Accelerator>> OpenDevice(const DeviceOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto gpu, cuda::OpenGpu(options.index));
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<cuda::StreamPair> streams,
                            cuda::StreamPair::Create(gpu));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto allocator, cuda::DeviceAllocator::Create(
                          streams, {options.memory_limit_bytes, options.describe_memory_use}));
  std::shared_ptr<RegisteredMemory> registered;
  if (options.registered_bytes > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        registered, RegisteredMemory::Allocate(options.library, gpu, options.registered_bytes));
    allocator->UseFirst(std::make_shared<cuda::Region>(
        streams, MemoryRange{registered->data(), registered->size_bytes()}, registered));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto processor, cuda::GpuProcessor::Create(streams, allocator));
  return std::shared_ptr<Accelerator>(std::make_shared<NcclDevice>(
      FactsOf(gpu->facts(), Version(options.library)), std::move(streams), std::move(allocator),
      std::move(processor), std::move(registered), options.max_communicators));
}

void SetDefaultsOfProcess(bool only_loopback) {
  // NCCL would listen on any interface it finds.
  if (only_loopback) setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  // Ranks that are threads of one process would reach into each other's memory, which comes from
  // pools that only their own GPU may use.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
}

void UseDevice(Accelerator& device, Options* options) {
  static_cast<NcclDevice&>(device).GiveTo(options);
}

}  // namespace lockstep::collective::nccl
