#include "tools/bench/gpu_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/nccl/endings.h"
#include "runtime/collective/nccl/handle.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/collectives/communicator_ranks.h"
#include "tools/bench/report.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

namespace nccl = collective::nccl;
using Clock = std::chrono::steady_clock;

// Posted one after the other before the GPU is waited for: fewer than it keeps in its queue.
constexpr int kBurst = 20;

Deadline Patience() { return Deadline::After(std::chrono::seconds(60)); }

double Microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// One rank, with both ways to reach the others.
class GpuRank {
 public:
  static StatusOr<std::unique_ptr<GpuRank>> Connect(int rank, const std::vector<std::string>& names,
                                                    const std::string& folder) {
    std::unique_ptr<GpuRank> self(new GpuRank);
    LOCKSTEP_ASSIGN_OR_RETURN(auto gpu, cuda::OpenGpu(rank));
    LOCKSTEP_RETURN_IF_ERROR(gpu->Bind());
    LOCKSTEP_ASSIGN_OR_RETURN(self->streams_, cuda::StreamPair::Create(gpu));
    LOCKSTEP_ASSIGN_OR_RETURN(self->allocator_, cuda::DeviceAllocator::Create(self->streams_));
    LOCKSTEP_ASSIGN_OR_RETURN(self->arena_,
                              tensor::Arena::Create({.name = names[static_cast<size_t>(rank)]}));
    collective::shm::Options cpus;
    cpus.rank = rank;
    cpus.arena_names = names;
    cpus.world = 1;
    cpus.arena = self->arena_;
    LOCKSTEP_ASSIGN_OR_RETURN(self->host_, collective::shm::Connect(cpus, Patience()));
    nccl::Options options;
    options.streams = self->streams_;
    options.allocator = self->allocator_;
    options.host = self->host_.get();
    options.key = names.size();
    options.rendezvous = std::make_shared<collective::FolderRendezvous>(folder, rank);
    LOCKSTEP_ASSIGN_OR_RETURN(self->world_, nccl::Connect(options, Patience()));
    self->ours_ = self->world_->Over(self->host_);
    LOCKSTEP_RETURN_IF_ERROR(self->ours_->Connect(Patience()));
    LOCKSTEP_RETURN_IF_ERROR(self->ConnectPlain());
    return self;
  }

  // One round.
  StatusOr<GpuCollectives> Measure(bool quick) {
    GpuCollectives round;
    LOCKSTEP_ASSIGN_OR_RETURN(const auto small, Allocate(kMiB));
    std::vector<double> our_posts;
    std::vector<double> plain_posts;
    for (int burst = 0; burst < (quick ? 3 : 20); ++burst) {
      LOCKSTEP_RETURN_IF_ERROR(OurBurst(*small, &our_posts));
      LOCKSTEP_RETURN_IF_ERROR(PlainBurst(*small, &plain_posts));
    }
    round.our_post = Median(std::move(our_posts));
    round.nccl_post = Median(std::move(plain_posts));
    if (host_->size() == 1) return round;
    for (const size_t size_bytes : {kMiB, 64 * kMiB, 512 * kMiB}) {
      if (quick && size_bytes > kMiB) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(const auto large, Allocate(size_bytes));
      GpuCollectives::Bandwidth bandwidth{size_bytes};
      LOCKSTEP_ASSIGN_OR_RETURN(bandwidth.ours,
                                BandwidthOf(*large, [&] { return OurBurst(*large, nullptr); }));
      LOCKSTEP_ASSIGN_OR_RETURN(bandwidth.nccl,
                                BandwidthOf(*large, [&] { return PlainBurst(*large, nullptr); }));
      round.bandwidths.push_back(bandwidth);
    }
    return round;
  }

 private:
  GpuRank() = default;

  Status ConnectPlain() {
    LOCKSTEP_ASSIGN_OR_RETURN(library_, nccl::LoadLibrary(""));
    ncclUniqueId id{};
    if (host_->rank() == 0) {
      LOCKSTEP_RETURN_IF_ERROR(
          nccl::ToStatus(*library_, library_->ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
    }
    const Buffer bytes{&id, sizeof id, DType::kUInt8};
    LOCKSTEP_RETURN_IF_ERROR(host_->Broadcast(bytes, bytes, 0, Patience()));
    LOCKSTEP_ASSIGN_OR_RETURN(
        plain_, nccl::Handle::Init(*library_, streams_->gpu().shared_from_this(), id, host_->rank(),
                                   host_->size(), Patience(), nullptr));
    return OkStatus();
  }

  StatusOr<std::shared_ptr<tensor::Storage>> Allocate(size_t size_bytes) {
    return allocator_->Allocate(size_bytes);
  }

  // Until the GPU has done everything, on all ranks.
  Status Drain() {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto done, streams_->gpu().NewEvent());
    LOCKSTEP_RETURN_IF_ERROR(streams_->communication().Record(*done));
    LOCKSTEP_RETURN_IF_ERROR(cuda::Await(*done, {Patience()}, "a burst"));
    return host_->Barrier(Patience());
  }

  // Adds the microseconds of each to `times`, unless it is null.
  Status OurBurst(const tensor::Storage& memory, std::vector<double>* times) {
    const Buffer buffer{memory.data(), memory.size_bytes() / sizeof(float), DType::kFloat32};
    const Deadline deadline = Patience();
    for (int i = 0; i < kBurst; ++i) {
      const auto began = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(
          ours_->AllReduce(buffer, buffer, collective::ReduceOp::kSum, deadline));
      if (times != nullptr) times->push_back(Microseconds(Clock::now() - began));
    }
    return Drain();
  }

  Status PlainBurst(const tensor::Storage& memory, std::vector<double>* times) {
    auto* const stream = nccl::ToNative(streams_->communication().handle());
    LOCKSTEP_RETURN_IF_ERROR(plain_->Run(
        "ncclAllReduce", Patience(), nullptr, [&](const nccl::Library& library, ncclComm_t comm) {
          ncclResult_t state = ncclSuccess;
          for (int i = 0; i < kBurst; ++i) {
            const auto began = Clock::now();
            state = library.ncclAllReduce(memory.data(), memory.data(),
                                          memory.size_bytes() / sizeof(float), ncclFloat32, ncclSum,
                                          comm, stream);
            // Before that it may not be asked for more.
            while (state == ncclInProgress) (void)library.ncclCommGetAsyncError(comm, &state);
            if (state != ncclSuccess) break;
            if (times != nullptr) times->push_back(Microseconds(Clock::now() - began));
          }
          return state;
        }));
    return Drain();
  }

  // Of the operations of `burst`, by the GPU's own clock.
  StatusOr<double> BandwidthOf(const tensor::Storage& memory,
                               const std::function<Status()>& burst) {
    LOCKSTEP_RETURN_IF_ERROR(burst());
    LOCKSTEP_ASSIGN_OR_RETURN(const auto began, streams_->gpu().NewEvent(/*timed=*/true));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto ended, streams_->gpu().NewEvent(/*timed=*/true));
    LOCKSTEP_RETURN_IF_ERROR(streams_->communication().Record(*began));
    LOCKSTEP_RETURN_IF_ERROR(burst());
    LOCKSTEP_RETURN_IF_ERROR(streams_->communication().Record(*ended));
    LOCKSTEP_RETURN_IF_ERROR(cuda::Await(*ended, {Patience()}, "a burst"));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::chrono::duration<double> took, ended->Since(*began));
    const double n = host_->size();
    const double bytes = static_cast<double>(memory.size_bytes()) * kBurst * 2 * (n - 1) / n;
    return bytes / took.count() * 1e-9;
  }

  std::shared_ptr<cuda::StreamPair> streams_;
  std::shared_ptr<cuda::DeviceAllocator> allocator_;
  std::shared_ptr<tensor::Arena> arena_;
  std::shared_ptr<collective::Communicator> host_;
  std::unique_ptr<collective::DeviceWorld> world_;
  std::unique_ptr<collective::DeviceCommunicator> ours_;
  const nccl::Library* library_ = nullptr;
  std::unique_ptr<nccl::Handle> plain_;
};

}  // namespace

StatusOr<std::vector<GpuCollectives>> MeasureGpuCollectives(const Settings& settings, int gpus) {
  const std::vector<std::string> names = ArenaNames(gpus);
  std::vector<std::vector<GpuCollectives>> rounds(static_cast<size_t>(gpus));
  std::vector<Status> ends(static_cast<size_t>(gpus));
  const auto run = [&](int rank) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto self, GpuRank::Connect(rank, names, settings.scratch));
    for (int round = 0; round < settings.rounds; ++round) {
      LOCKSTEP_ASSIGN_OR_RETURN(GpuCollectives measured, self->Measure(settings.quick));
      rounds[static_cast<size_t>(rank)].push_back(std::move(measured));
    }
    return OkStatus();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < gpus; ++rank) {
    threads.emplace_back([&, rank] { ends[static_cast<size_t>(rank)] = run(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  // Their communicators end on threads of their own.
  if (!collective::nccl::AwaitEndings(Patience())) {
    return DeadlineExceeded("communicators do not end");
  }
  for (int rank = 0; rank < gpus; ++rank) {
    LOCKSTEP_RETURN_IF_ERROR(
        Annotate(ends[static_cast<size_t>(rank)], "GPU " + std::to_string(rank)));
  }
  return rounds.front();
}

}  // namespace lockstep::bench
