// What a GPU worker costs beside a CPU worker, and beside what CUDA and NCCL do by themselves.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/host_copier.h"
#include "runtime/cuda/stream_pair.h"
#include "tools/bench/clusters.h"
#include "tools/bench/gpu_collectives.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A no-op call may take 1.1 times as long as on a CPU worker.
constexpr double kGpuCallsGoal = 1 / 1.1;
constexpr double kGpuCopyGoal = 0.95;
constexpr double kPostGoal = 3;
constexpr int kCopies = 8;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

collective::WaitLimit Soon() { return {Deadline::After(std::chrono::seconds(60))}; }

StatusOr<double> CallsPerSecond(Session& session, const DRef& nop, int calls) {
  const auto began = Clock::now();
  for (int i = 0; i < calls; ++i) LOCKSTEP_RETURN_IF_ERROR(session.Call(nop).status());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  return calls / Seconds(Clock::now() - began);
}

Status MeasureNoOps(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "gpu",
                           .what = "no-op calls executed, 1 GPU worker",
                           .unit = "1/s",
                           .better = Better::kMore,
                           .goal = Goal::RatioAtLeast(kGpuCallsGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const auto on_cpu, StartLocalCluster(1));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto on_gpu, StartGpuCluster(1));
  LOCKSTEP_ASSIGN_OR_RETURN(Session cpu, on_cpu->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(Session gpu, on_gpu->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef cpu_nop, cpu.GetFunction("lockstep.nop"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef gpu_nop, gpu.GetFunction("lockstep.nop"));
  const int calls = settings.quick ? 50'000 : 200'000;
  LOCKSTEP_RETURN_IF_ERROR(CallsPerSecond(cpu, cpu_nop, calls / 10).status());
  LOCKSTEP_RETURN_IF_ERROR(CallsPerSecond(gpu, gpu_nop, calls / 10).status());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours, CallsPerSecond(gpu, gpu_nop, calls));
    LOCKSTEP_ASSIGN_OR_RETURN(const double theirs, CallsPerSecond(cpu, cpu_nop, calls));
    line.ours.push_back(ours);
    line.Rival("CPU worker").values.push_back(theirs);
  }
  LOCKSTEP_RETURN_IF_ERROR(gpu.Close());
  LOCKSTEP_RETURN_IF_ERROR(cpu.Close());
  LOCKSTEP_RETURN_IF_ERROR(on_gpu->Stop());
  return on_cpu->Stop();
}

// One GPU, and memory of all kinds.
struct CopyBench {
  static StatusOr<CopyBench> Create(size_t size_bytes) {
    CopyBench bench;
    LOCKSTEP_ASSIGN_OR_RETURN(bench.gpu, cuda::OpenGpu(0));
    LOCKSTEP_RETURN_IF_ERROR(bench.gpu->Bind());
    LOCKSTEP_ASSIGN_OR_RETURN(bench.streams, cuda::StreamPair::Create(bench.gpu));
    LOCKSTEP_ASSIGN_OR_RETURN(bench.allocator, cuda::DeviceAllocator::Create(bench.streams));
    LOCKSTEP_ASSIGN_OR_RETURN(bench.copier,
                              cuda::HostCopier::Create(bench.gpu, bench.allocator->pool()));
    LOCKSTEP_ASSIGN_OR_RETURN(bench.there, bench.allocator->Allocate(size_bytes));
    LOCKSTEP_ASSIGN_OR_RETURN(bench.other, bench.allocator->Allocate(size_bytes));
    LOCKSTEP_ASSIGN_OR_RETURN(void* const pinned, bench.gpu->AllocateHost(size_bytes));
    bench.pinned = {pinned, [gpu = bench.gpu](void* memory) { gpu->FreeHost(memory); }};
    bench.ordinary.resize(size_bytes);
    return bench;
  }

  // GB/s of what `copy` puts into the compute stream, until it is done.
  StatusOr<double> Rate(const std::function<Status()>& copy) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto done, gpu->NewEvent());
    std::vector<double> rates;
    for (int i = 0; i < kCopies; ++i) {
      const auto began = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(copy());
      LOCKSTEP_RETURN_IF_ERROR(streams->compute().Record(*done));
      LOCKSTEP_RETURN_IF_ERROR(cuda::Await(*done, Soon(), "a copy"));
      rates.push_back(static_cast<double>(ordinary.size()) / Seconds(Clock::now() - began) * 1e-9);
    }
    return Median(std::move(rates));
  }

  std::shared_ptr<cuda::Gpu> gpu;
  std::shared_ptr<cuda::StreamPair> streams;
  std::unique_ptr<cuda::HostCopier> copier;
  std::shared_ptr<cuda::DeviceAllocator> allocator;
  std::shared_ptr<tensor::Storage> there;
  std::shared_ptr<tensor::Storage> other;
  std::shared_ptr<void> pinned;
  std::vector<std::byte> ordinary;
};

Status MeasureCopies(const Settings& settings, Report& report) {
  const size_t size_bytes = (settings.quick ? 16 : 256) * kMiB;
  LOCKSTEP_ASSIGN_OR_RETURN(CopyBench bench, CopyBench::Create(size_bytes));
  cuda::Stream& stream = bench.streams->compute();
  struct Direction {
    std::string what;
    std::function<Status()> ours;
    std::vector<std::pair<std::string, std::function<Status()>>> rivals;
  };
  void* const there = bench.there->data();
  void* const pinned = bench.pinned.get();
  void* const ordinary = bench.ordinary.data();
  const auto plain = [&](void* to, const void* from) {
    return [&stream, to, from, size_bytes] { return stream.Copy(to, from, size_bytes); };
  };
  const std::vector<Direction> directions = {
      {"host to GPU",
       [&] { return bench.copier->ToGpu(stream, there, ordinary, size_bytes, Soon()); },
       {{"cuMemcpyAsync", plain(there, ordinary)}, {"... from pinned", plain(there, pinned)}}},
      {"GPU to host",
       [&] { return bench.copier->FromGpu(stream, ordinary, there, size_bytes, Soon()); },
       {{"cuMemcpyAsync", plain(ordinary, there)}, {"... to pinned", plain(pinned, there)}}},
      {"GPU to the same GPU",
       [&]() -> Status {
         LOCKSTEP_RETURN_IF_ERROR(bench.streams->BeforeCompute({there, size_bytes}));
         return stream.CopyRows(bench.other->data(), size_bytes, there, size_bytes, size_bytes, 1);
       },
       {{"cuMemcpyAsync", plain(bench.other->data(), there)}}},
  };
  for (const Direction& direction : directions) {
    Line& line = report.Add({.row = "gpu",
                             .what = direction.what + ", " + RoundedSize(size_bytes),
                             .unit = "GB/s",
                             .better = Better::kMore,
                             .goal = Goal::RatioAtLeast(kGpuCopyGoal),
                             .note = "ours copies ordinary memory"});
    for (int round = 0; round < settings.rounds; ++round) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_ASSIGN_OR_RETURN(const double ours, bench.Rate(direction.ours));
      line.ours.push_back(ours);
      for (const auto& [name, copy] : direction.rivals) {
        LOCKSTEP_ASSIGN_OR_RETURN(const double theirs, bench.Rate(copy));
        line.Rival(name).values.push_back(theirs);
      }
    }
  }
  return OkStatus();
}

Status MeasureCollectives(const Settings& settings, int gpus, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<GpuCollectives> rounds,
                            MeasureGpuCollectives(settings, gpus));
  const std::string ranks = std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
  Line& post = report.Add({.row = "gpu",
                           .what = "host time of an allreduce beyond NCCL's, " + ranks,
                           .unit = "us",
                           .goal = Goal::ValueAtMost(kPostGoal),
                           .note = "1 MiB; agreement of the ranks counted in"});
  Line& plain = report.Add({.row = "gpu", .what = "host time of ncclAllReduce", .unit = "us"});
  for (const GpuCollectives& round : rounds) {
    post.ours.push_back(round.our_post - round.nccl_post);
    plain.ours.push_back(round.nccl_post);
  }
  for (size_t i = 0; i < rounds.front().bandwidths.size(); ++i) {
    Line& line =
        report.Add({.row = "gpu",
                    .what = "allreduce, " + RoundedSize(rounds.front().bandwidths[i].size_bytes) +
                            ", " + ranks,
                    .unit = "GB/s",
                    .better = Better::kMore,
                    .goal = Goal::RatioAtLeast(kGpuCopyGoal),
                    .note = "bus bandwidth"});
    for (const GpuCollectives& round : rounds) {
      line.ours.push_back(round.bandwidths[i].ours);
      line.Rival("ncclAllReduce").values.push_back(round.bandwidths[i].nccl);
    }
  }
  return OkStatus();
}

}  // namespace

Status MeasureGpu(const Settings& settings, Report& report) {
  LOCKSTEP_RETURN_IF_ERROR(collective::nccl::Available());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto gpus, cuda::ListGpus());
  LOCKSTEP_RETURN_IF_ERROR(MeasureNoOps(settings, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureCopies(settings, report));
  // By itself, and with the others: what ranks agree about costs nothing where there is one.
  LOCKSTEP_RETURN_IF_ERROR(MeasureCollectives(settings, 1, report));
  const int all = static_cast<int>(std::min<size_t>(gpus.size(), 8));
  if (all > 1) LOCKSTEP_RETURN_IF_ERROR(MeasureCollectives(settings, all, report));
  return MeasureGpuPlan(settings, all, report);
}

}  // namespace lockstep::bench
