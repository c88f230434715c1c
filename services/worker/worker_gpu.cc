// How a worker comes to its GPU.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/device.h"
#include "runtime/base/log.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/control/host.h"
#include "services/worker/gpu/gpu_choice.h"
#include "services/worker/worker.h"

namespace lockstep::worker {
namespace {

// A wait ends because somebody ends it, not by itself.
constexpr std::chrono::hours kAsLongAsItTakes{24 * 365};
// A chunk that a client copies comes behind what any session is doing on the GPU, and others'
// copies behind it: so not for ever.
constexpr std::chrono::minutes kLongestCopy{10};

}  // namespace

Status Worker::CheckDevice(const WorkerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Device device, ParseDevice(options.device));
  if (device.type == DeviceType::kCpu) return OkStatus();
  const std::string what = "device " + options.device + " cannot be used";
  LOCKSTEP_RETURN_IF_ERROR(Annotate(collective::nccl::Available(options.nccl_library), what));
  // NCCL would listen on any interface it finds.
  if (options.data_plaintext == "loopback") setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  // Ranks that are threads of one process would reach into each other's memory, which comes from
  // pools that only their own GPU may use.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<cuda::GpuFacts> gpus, cuda::ListGpus());
  if (device.index >= static_cast<int>(gpus.size())) {
    return NotFound(what, ": this process sees ", gpus.size(), " GPUs, counted from 0");
  }
  return OkStatus();
}

StatusOr<bool> Worker::TakeGpu(Executor& executor) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Device device, ParseDevice(options_.device));
  GpuOffer mine{collective::nccl::HostName(control::ThisHost().machine), {}};
  std::vector<cuda::GpuFacts> seen;
  if (device.type == DeviceType::kCuda) {
    LOCKSTEP_ASSIGN_OR_RETURN(seen, cuda::ListGpus());
    // One that it was told, or has already, and no other.
    const bool may_choose = gpu_ == nullptr && options_.device == "cuda";
    const int only = gpu_ != nullptr ? gpu_->facts().index : device.index;
    std::erase_if(seen,
                  [&](const cuda::GpuFacts& gpu) { return !may_choose && gpu.index != only; });
    for (const cuda::GpuFacts& gpu : seen) mine.gpus.push_back(gpu.bus_id);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<GpuOffer> offers,
                            ExchangeOffers(membership_, mine, *rendezvous_, cancel_connecting_,
                                           Deadline::After(kAsLongAsItTakes)));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int> chosen, ChooseGpus(offers));
  const bool any = std::any_of(chosen.begin(), chosen.end(), [](int gpu) { return gpu >= 0; });
  const int own = chosen[static_cast<size_t>(membership_.rank)];
  if (own < 0 || gpu_ != nullptr) return any;
  LOCKSTEP_ASSIGN_OR_RETURN(gpu_, GpuSide::Open(seen[static_cast<size_t>(own)].index, options_,
                                                [this] { return DescribeMemoryUse(); }));
  LOCKSTEP_ASSIGN_OR_RETURN(auto for_copies, gpu_->NewProcessor());
  auto* const copies = for_copies.get();
  bulk_->UseGpu(std::move(for_copies), [copies, gpu = gpu_->gpu().shared_from_this()](
                                           std::function<Status()> interrupted) {
    copies->SetPatience({Deadline::After(kLongestCopy), std::move(interrupted)});
    return gpu->Bind();
  });
  executor.UseGpu(*gpu_);
  const cuda::GpuFacts& facts = gpu_->facts();
  const std::string nccl = collective::nccl::Version(options_.nccl_library);
  metrics_.UseGpu(
      {facts, nccl,
       options_.device_memory_bytes > 0 ? options_.device_memory_bytes : facts.memory_bytes,
       std::make_shared<GpuWatch>(gpu_->streams(), gpu_->allocator())});
  log::Info("worker ", membership_.rank, " uses GPU ", facts.index, ": ", facts.name, " at ",
            facts.bus_id, ", ", facts.memory_bytes >> 20, " MiB, compute capability ", facts.major,
            ".", facts.minor, ", driver for CUDA ", cuda::CudaVersionText(facts.driver_version),
            ", NCCL ", nccl);
  return any;
}

std::string Worker::DescribeMemoryUse() {
  Executor* executor = nullptr;
  {
    std::lock_guard lock(state_mutex_);
    executor = executor_;
  }
  return executor == nullptr ? "" : executor->sessions().DescribeMemoryUse();
}

bool Worker::LeftThreadsBehind() {
  return !collective::nccl::AwaitEndings(Deadline::After(std::chrono::seconds(0))) ||
         GpuWatch::AnyLeftBehind();
}

}  // namespace lockstep::worker
