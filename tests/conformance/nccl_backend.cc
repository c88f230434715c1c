// The backend nccl, for the suite: ranks on GPUs of their own (fakes), or all on one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/sanitizers.h"
#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/nccl/nccl.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/host_copier.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/arena.h"
#include "tests/conformance/finishing.h"
#include "tests/conformance/ranks.h"
#include "tests/conformance/world_under_test.h"
#include "tests/support/gpu.h"

namespace lockstep::collective {
namespace {

class GpuCopies final : public DeviceCopies {
 public:
  GpuCopies(cuda::StreamPair& streams, std::unique_ptr<cuda::HostCopier> copier)
      : streams_(streams), copier_(std::move(copier)) {
    OfThisThread() = this;
  }
  ~GpuCopies() override { OfThisThread() = nullptr; }

  void ToDevice(void* to, const void* from, size_t size_bytes) override {
    Expect(streams_.BeforeCompute({to, size_bytes}));
    Expect(copier_->ToGpu(streams_.compute(), to, from, size_bytes, {Patience()}));
  }
  void FromDevice(void* to, const void* from, size_t size_bytes) override {
    Expect(streams_.BeforeCompute({from, size_bytes}));
    Expect(copier_->FromGpu(streams_.compute(), to, from, size_bytes, {Patience()}));
  }

 private:
  static void Expect(const Status& status) { EXPECT_TRUE(status.ok()) << status; }

  cuda::StreamPair& streams_;
  const std::unique_ptr<cuda::HostCopier> copier_;
};

StatusOr<std::unique_ptr<Communicator>> ConnectCpus(int rank, const std::vector<std::string>& names,
                                                    std::shared_ptr<tensor::Arena>* arena) {
  LOCKSTEP_ASSIGN_OR_RETURN(*arena,
                            tensor::Arena::Create({.name = names[static_cast<size_t>(rank)]}));
  shm::Options options;
  options.rank = rank;
  options.arena_names = names;
  options.world = 1;
  options.arena = *arena;
  return shm::Connect(options, Patience());
}

struct GpuRank {
  std::shared_ptr<tensor::Arena> arena;
  std::shared_ptr<cuda::StreamPair> streams;
  std::shared_ptr<KnowingAllocator> allocator;
  std::unique_ptr<GpuCopies> copies;
  std::unique_ptr<Communicator> comm;
};

StatusOr<GpuRank> ConnectGpu(int rank, int gpu_index, const std::vector<std::string>& names,
                             const std::string& folder) {
  GpuRank self;
  LOCKSTEP_ASSIGN_OR_RETURN(auto gpu, cuda::OpenGpu(gpu_index));
  LOCKSTEP_ASSIGN_OR_RETURN(self.streams, cuda::StreamPair::Create(gpu));
  LOCKSTEP_ASSIGN_OR_RETURN(auto allocator, cuda::DeviceAllocator::Create(self.streams));
  self.allocator = std::make_shared<KnowingAllocator>(allocator);
  LOCKSTEP_ASSIGN_OR_RETURN(auto copier, cuda::HostCopier::Create(gpu, allocator->pool()));
  self.copies = std::make_unique<GpuCopies>(*self.streams, std::move(copier));
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Communicator> host,
                            ConnectCpus(rank, names, &self.arena));
  nccl::Options options;
  options.streams = self.streams;
  options.allocator = allocator;
  options.host = host.get();
  options.rendezvous = std::make_shared<FolderRendezvous>(folder, rank);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto world, nccl::Connect(options, Patience()));
  // What was begun is over when nothing is left in the stream.
  const auto finish = [streams = self.streams](Deadline deadline) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto event, streams->gpu().NewEvent());
    LOCKSTEP_RETURN_IF_ERROR(streams->communication().Record(*event));
    return cuda::Await(*event, {deadline}, "an operation");
  };
  auto comm = world->Over(host);
  LOCKSTEP_RETURN_IF_ERROR(comm->Connect(Patience()));
  self.comm = std::make_unique<Finishing>(std::move(comm), self.allocator, finish);
  return self;
}

void RunGpuRank(int rank, int gpu_index, const std::vector<std::string>& names,
                const std::string& folder, const Body& body) {
  auto self = ConnectGpu(rank, gpu_index, names, folder);
  ASSERT_TRUE(self.ok()) << self.status();
  RankUnderTest under_test{*self->comm, *self->allocator};
  body(under_test);
  self->comm.reset();
  EXPECT_TRUE(nccl::AwaitEndings(Patience()));
}

#ifdef LOCKSTEP_FAKE_GPU
void RunRanks(int size, const Body& body) {
  const RendezvousFolder folder;
  const std::vector<std::string> names = ArenaNames(size);
  RunThreads(size, [&](int rank) { RunGpuRank(rank, rank, names, folder.path(), body); });
}
#else
// NCCL takes processes with host names of their own for so many hosts, and lets them share a GPU.
void RunRanks(int size, const Body& body) {
  const RendezvousFolder folder;
  const std::vector<std::string> names = ArenaNames(size);
  RunProcesses(size, [&](int rank) {
    setenv("NCCL_HOSTID", ("conformance-" + std::to_string(rank)).c_str(), /*overwrite=*/1);
    RunGpuRank(rank, /*gpu_index=*/0, names, folder.path(), body);
  });
}
#endif

#ifdef LOCKSTEP_FAKE_GPU
std::string AskAlone(const std::function<std::string()>& question) { return question(); }
#else
// What a process of its own answers: children of one that has initialised CUDA cannot use it.
std::string AskAlone(const std::function<std::string()>& question) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string answer = question();
    (void)!write(pipe_ends[1], answer.data(), answer.size());
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string answer;
  char buffer[256];
  for (ssize_t got = 1; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  return answer;
}
#endif

std::string WhyNot() {
  const std::string why = AskAlone([] {
    const Status available = nccl::Available();
    return available.ok() ? std::string() : Message(available);
  });
  return support::WhyWithoutGpu(why.empty() ? OkStatus() : Unavailable(why));
}

// 2.24 and Hopper; the version compares as text.
bool ReducesFloat8() {
  return AskAlone([] { return nccl::Version(); }).compare("2.24") >= 0;
}

}  // namespace

const std::vector<BackendUnderTest>& Backends() {
#ifdef LOCKSTEP_FAKE_GPU
  constexpr bool kProcesses = false;
#else
  constexpr bool kProcesses = true;
#endif
  // As of other backends whose library is not ours (backends.cc).
  const std::vector<int> sizes = kSanitized ? std::vector<int>{3} : std::vector<int>{1, 2, 4};
  static const std::vector<BackendUnderTest> backends = {{.name = "nccl",
                                                          .run = RunRanks,
                                                          .sizes = sizes,
                                                          .processes = kProcesses,
                                                          .splits = 20,
                                                          .orders_all_floats = false,
                                                          .reduces_float8 = ReducesFloat8(),
                                                          .why_not = WhyNot()}};
  return backends;
}

}  // namespace lockstep::collective
