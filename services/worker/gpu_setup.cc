#include "services/worker/gpu_setup.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/device.h"
#include "runtime/base/log.h"
#include "services/worker/backends.h"
#include "services/worker/gpu/gpu_choice.h"
#include "services/worker/gpu/gpu_metrics.h"
#include "services/worker/gpu/gpu_watch.h"

namespace lockstep::worker {
namespace {

// A wait that is ended from outside, not by itself.
constexpr std::chrono::hours kAsLongAsItTakes{24 * 365};
// A chunk that a client copies comes behind what any session is doing on the GPU, and others'
// copies behind it: so not for ever.
constexpr std::chrono::minutes kLongestCopy{10};

}  // namespace

StatusOr<bool> GpuSetup::Take(const Membership& membership, collective::Rendezvous& rendezvous,
                              const std::atomic<bool>& cancelled, const Users& users) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Device device, ParseDevice(options_.device));
  GpuOffer mine{HostOfDevices(), {}};
  std::vector<collective::DeviceFacts> seen;
  if (device.type == DeviceType::kCuda) {
    LOCKSTEP_ASSIGN_OR_RETURN(seen, ListDevices(options_));
    // One that it was told, or has already, and no other.
    const bool may_choose = gpu_ == nullptr && options_.device == "cuda";
    const int only = gpu_ != nullptr ? gpu_->facts().index : device.index;
    std::erase_if(
        seen, [&](const collective::DeviceFacts& gpu) { return !may_choose && gpu.index != only; });
    for (const collective::DeviceFacts& gpu : seen) mine.gpus.push_back(gpu.uuid);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<GpuOffer> offers,
      ExchangeOffers(membership, mine, rendezvous, cancelled, Deadline::After(kAsLongAsItTakes)));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int> chosen, ChooseGpus(offers));
  const bool any = std::any_of(chosen.begin(), chosen.end(), [](int gpu) { return gpu >= 0; });
  const int own = chosen[static_cast<size_t>(membership.rank)];
  if (own < 0 || gpu_ != nullptr) return any;
  LOCKSTEP_ASSIGN_OR_RETURN(
      gpu_, OpenDevice(seen[static_cast<size_t>(own)].index, options_, describe_memory_use_));
  LOCKSTEP_ASSIGN_OR_RETURN(auto for_copies, gpu_->NewProcessor());
  auto* const copies = for_copies.get();
  users.bulk.UseGpu(std::move(for_copies),
                    [copies, gpu = gpu_](std::function<Status()> interrupted) {
                      copies->SetWaitLimit({Deadline::After(kLongestCopy), std::move(interrupted)});
                      return gpu->Bind();
                    });
  users.executor.UseGpu(gpu_);
  const collective::DeviceFacts& facts = gpu_->facts();
  users.metrics.UseGpu(
      {facts, options_.device_memory_bytes > 0 ? options_.device_memory_bytes : facts.memory_bytes,
       std::make_shared<GpuWatch>(gpu_->NewMonitor())});
  log::Info("worker ", membership.rank, " uses GPU ", facts.index, ": ", facts.name, " at ",
            facts.bus_id, ", ", facts.memory_bytes >> 20, " MiB, compute capability ",
            facts.capability, ", driver for CUDA ", facts.driver_api, ", NCCL ",
            facts.collectives_library);
  return any;
}

}  // namespace lockstep::worker
