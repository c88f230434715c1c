// What tests of workers with GPUs have in common: fake ones, or real ones.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {

// Kinds over TCP, where there are GPUs for their workers.
inline std::vector<ClusterKind> GpuKinds() {
  std::vector<ClusterKind> kinds = PossibleKinds();
  std::erase(kinds, ClusterKind::kLocalThreads);
  std::erase(kinds, ClusterKind::kLocalProcesses);
  return kinds;
}

// Every test has its own cluster, whose workers can load kernels that behave well, and badly.
class GpuFixture : public OwnClusterFixture {
 protected:
  static constexpr size_t kMemoryBytes = 64 << 20;

  void SetUp() override {
    OwnClusterFixture::SetUp();
    if (IsSkipped()) return;
    module_ = Unwrap(session_->LoadModule("gpu_module.so"));
  }
  void TearDown() override {
    module_ = DRef();
    SessionFixture::TearDown();
  }
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.heartbeat_interval = std::chrono::milliseconds(50);
    options.controller.stuck_after = std::chrono::milliseconds(200);
    options.worker.device_memory_bytes = kMemoryBytes;
    options.worker.module_path = {
        std::filesystem::canonical("tests/gpu_module/gpu_module.so").parent_path()};
    return options;
  }

  DRef Kernel(const std::string& name) { return Unwrap(session_->GetFunction(module_, name)); }
  DRef Ones(const Shape& shape) { return Call("lockstep.full", shape, 1.0, DType::kFloat32); }
  // The message of what the session failed by.
  std::string FailureOfSync() {
    const Status status = session_->SyncAll();
    EXPECT_FALSE(status.ok());
    return Message(status);
  }
  // Rank 1 has its tensor in host memory, and the others have theirs on their GPUs.
  void ExpectDisagreementAboutMemory() {
    using ::testing::HasSubstr;
    const DRef where = Unwrap(session_->Empty({0}, DType::kUInt8));
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_OK(session_->DebugSet(where, rank, rank == 1 ? "cpu" : "cuda"));
    }
    const DRef tensor = Call("lockstep.full", Shape{5}, 1, DType::kFloat32, where);
    (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));
    EXPECT_THAT(
        FailureOfSync(),
        ::testing::AllOf(HasSubstr("the ranks disagree"),
                         HasSubstr("ranks 0, 2, 3 call allreduce sum of 5 float32 on its GPU"),
                         HasSubstr("rank 1 calls allreduce in host memory")));
    EXPECT_OK(session_->Reset());
    (void)Unwrap(session_->AllGather(tensor));
    EXPECT_THAT(FailureOfSync(), HasSubstr("has a tensor on its GPU"));
    EXPECT_OK(session_->Reset());
    EXPECT_OK(session_->SyncAll());
  }
  // What the fake NCCL, or CUDA, of this process says of itself; -1: it is not there.
  static int AskFakeNccl(const char* function) { return AskFake("libnccl.so.2", function); }
  static int AskFakeCuda(const char* function) { return AskFake("libcuda.so.1", function); }
  static int AskFake(const char* file, const char* function) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return -1;
    const auto ask = reinterpret_cast<int (*)()>(dlsym(library, function));
    const int answer = ask == nullptr ? -1 : ask();
    dlclose(library);
    return answer;
  }

  DRef module_;
};

}  // namespace lockstep::testing
