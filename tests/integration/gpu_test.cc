// Workers with GPUs: what only they do.
#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/plan/program.h"
#include "tests/integration/gpu_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class GpuTest : public GpuFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuTest, ::testing::ValuesIn(GpuKinds()), NameOf);

// Workers of one process share their GPUs' fate.
class GpuLossTest : public GpuTest {};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuLossTest, ::testing::Values(ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(GpuTest, TensorsAreMadeAndWorkedOnThere) {
  const DRef numbers = Call("lockstep.arange", 0, 12, 1, DType::kInt32);
  const DRef matrix = Call("lockstep.reshape", numbers, Shape{3, 4});
  const DRef columns = Call("lockstep.slice", matrix, 1, 1, 3);
  const DRef twice = Call("lockstep.concat", 1, columns, columns);
  const DRef floats = Call("lockstep.cast", twice, DType::kFloat32);
  (void)Unwrap(session_->Call(Kernel("scale"), floats, 10.0));  // it takes GPU tensors only
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(Elements<float>(floats, rank),
              (std::vector<float>{10, 20, 10, 20, 50, 60, 50, 60, 90, 100, 90, 100}));
  }
}

TEST_P(GpuTest, TensorsAreMovedBetweenGpuAndHost) {
  const DRef on_gpu = FullOfRank({1000});
  const DRef on_host = Call("lockstep.to_device", on_gpu, "cpu");
  const DRef back = Call("lockstep.to_device", on_host, "cuda");
  EXPECT_THAT(Elements<float>(back, 2), Each(2.0f));
  (void)Unwrap(session_->Call(Kernel("scale"), back, 2.0));
  EXPECT_THAT(Elements<float>(back, 2), Each(4.0f));
  EXPECT_THAT(Elements<float>(on_gpu, 2), Each(2.0f)) << "a copy of its own";
  (void)Unwrap(session_->Call(Kernel("scale"), on_host, 2.0));
  EXPECT_THAT(FailureOfSync(), HasSubstr("must be on a GPU"));
}

TEST_P(GpuTest, HostTensorsOfGpuWorkersAreReducedByTheirCpus) {
  const DRef rank = Call("lockstep.worker_rank");
  const DRef on_host = Call("lockstep.full", Shape{5}, rank, DType::kFloat32, "cpu");
  const DRef sum = Unwrap(session_->AllReduce(on_host, Reduction::kSum));
  EXPECT_THAT(Elements<float>(sum, 1), Each(6.0f));
  (void)Unwrap(session_->Call(Kernel("scale"), sum, 2.0));
  EXPECT_THAT(FailureOfSync(), HasSubstr("must be on a GPU"));
}

TEST_P(GpuTest, RanksWithTensorsInDifferentMemoryAreToldSo) { ExpectDisagreementAboutMemory(); }

TEST_P(GpuTest, KernelsAndCollectivesKeepTheirOrder) {
  const DRef scale = Kernel("scale");
  DRef tensor = FullOfRank({50'000});
  for (int round = 0; round < 5; ++round) {
    (void)Unwrap(session_->Call(scale, tensor, 0.5));
    tensor = Unwrap(session_->AllReduce(tensor, Reduction::kSum));
  }
  // 0 + 1 + 2 + 3, and then four times a half of it, four times.
  EXPECT_THAT(Elements<float>(tensor, 3), Each(3.0f * 2 * 2 * 2 * 2));
}

// A program that sums columns of partial values: kernels on both sides of a reshard.
class GpuPlansTest : public GpuTest {
 protected:
  static plan::Layout LayoutBy(plan::Placement placement) {
    const plan::Mesh all = Unwrap(plan::Mesh::Line({0, 1, 2, 3}));
    return Unwrap(plan::Layout::Make({8, 3}, DType::kFloat32, all, {placement}));
  }
  plan::Program ScaledSums() const {
    plan::ProgramBuilder program;
    const plan::ValueId x = program.Input("x", partial_);
    const plan::ValueId columns = program.Reshard(x, columns_);
    program.Call("scale", {plan::Update(columns), plan::Pass(0.5)});  // takes GPU tensors only
    program.Output("y", program.Reshard(columns, whole_));
    return Unwrap(program.Build());
  }
  // The same by a function that does not say that it may be captured.
  plan::Program HalvedSums() const {
    plan::ProgramBuilder program;
    const plan::ValueId x = program.Input("x", partial_);
    const plan::ValueId columns = program.Reshard(x, columns_);
    program.Call("halve", {plan::Update(columns)});
    program.Output("y", program.Reshard(columns, whole_));
    return Unwrap(program.Build());
  }
  // How often the workers of this process have launched a graph; -1: they are not here, or on GPUs.
  static int Launches() {
    return GetParam() == ClusterKind::kTcpThreads ? AskFakeCuda("fake_cuda_graph_launches") : -1;
  }
  // By each worker.
  static void ExpectLaunchesSince(int before, int launches) {
    if (before < 0) return;
    EXPECT_EQ(Launches(), before + launches * kWorkers);
    EXPECT_EQ(AskFakeCuda("fake_cuda_misuses"), 0);
  }
  void ExpectOnAllRanks(const DRef& y, float value) {
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_THAT(Elements<float>(y, rank), Each(value)) << "rank " << rank;
    }
  }
  PlanRegisters Registers(const DRef& x) {
    return {.inputs = {{"x", x}}, .functions = {{"scale", Kernel("scale")}}};
  }
  DRef PartialOnes(const char* where) {
    DRef ones = Call("lockstep.full", Shape{8, 3}, 1.0, DType::kFloat32, where);
    EXPECT_OK(session_->DeclareLayout(ones, partial_));
    return ones;
  }

  const plan::Layout partial_ = LayoutBy(plan::Placement::Partial(Reduction::kSum));
  const plan::Layout columns_ = LayoutBy(plan::Placement::Shard(1));
  const plan::Layout whole_ = LayoutBy(plan::Placement::Replicate());
};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuPlansTest, ::testing::ValuesIn(GpuKinds()), NameOf);

TEST_P(GpuPlansTest, APlanKeepsItsTensorsThere) {
  const DRef x = PartialOnes("cuda");
  BoundPlan plan = Unwrap(session_->Bind(ScaledSums(), Registers(x)));
  const DRef y = Unwrap(plan.Output("y"));
  EXPECT_THAT(Elements<float>(y, 0), Each(0.0f)) << "before it is executed";
  // More steps than a stream is given ahead.
  for (int i = 0; i < 40; ++i) EXPECT_OK(plan.Execute());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(y, rank), Each(2.0f));
    EXPECT_THAT(Elements<float>(x, rank), Each(1.0f)) << "it is read only";
  }
  (void)Unwrap(session_->Call(Kernel("scale"), y, 2.0));
  EXPECT_THAT(Elements<float>(y, 3), Each(4.0f));
}

TEST_P(GpuPlansTest, APlanBecomesOneGraphThatFollowsItsInputs) {
  const DRef x = PartialOnes("cuda");
  BoundPlan plan = Unwrap(session_->Bind(ScaledSums(), Registers(x)));
  const DRef y = Unwrap(plan.Output("y"));
  const int before = Launches();
  for (int i = 0; i < 5; ++i) EXPECT_OK(plan.Execute());
  ExpectOnAllRanks(y, 2);
  // The first was done step by step.
  ExpectLaunchesSince(before, 4);
  // Another value in the same memory.
  (void)Unwrap(session_->Call(Function("lockstep.copy"),
                              Call("lockstep.full", Shape{8, 3}, 3.0, DType::kFloat32, "cuda"), x));
  EXPECT_OK(plan.Execute());
  ExpectOnAllRanks(y, 6);
  // Another tensor in one rank's register: its graph is no use, nor are those of the others.
  EXPECT_OK(session_->DebugSet(x, 3, HostTensor::Of<float>({8, 3}, std::vector<float>(24, 5.0F))));
  const int captured = Launches();
  EXPECT_OK(plan.Execute());
  ExpectOnAllRanks(y, 7);
  ExpectLaunchesSince(captured, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(plan.Execute());
    ExpectOnAllRanks(y, 7);
  }
  ExpectLaunchesSince(captured, 2);
  EXPECT_OK(plan.Execute({.step_by_step = true}));
  ExpectOnAllRanks(y, 7);
  ExpectLaunchesSince(captured, 2);
}

TEST_P(GpuPlansTest, AFunctionThatDoesNotSaySoIsNotCaptured) {
  const DRef x = PartialOnes("cuda");
  BoundPlan plan = Unwrap(session_->Bind(
      HalvedSums(), {.inputs = {{"x", x}}, .functions = {{"halve", Kernel("halve")}}}));
  const int before = Launches();
  for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
  ExpectOnAllRanks(Unwrap(plan.Output("y")), 2);
  ExpectLaunchesSince(before, 0);
  int told = 0;
  for (const RankRegisters& rank :
       Unwrap(ListRegisters(cluster_->address(), {.session = session_->id()}, support::kLong))) {
    for (const SessionHoldings& session : rank.sessions) {
      told += static_cast<int>(
          std::count_if(session.listed.begin(), session.listed.end(), [](const HeldRegister& held) {
            return held.detail.find("halve, which does not say that it may be captured") !=
                   std::string::npos;
          }));
    }
  }
  EXPECT_EQ(told, kWorkers);
}

// NCCL has no integers of 16 bits: each collective has wider copies, which a graph keeps for
// itself, and for which rank 1 has no memory.
TEST_P(GpuPlansTest, ACaptureThatFailsOnOneRankIsDroppedByAll) {
  constexpr int64_t kElements = 1 << 18;
  const plan::Layout layout = Unwrap(plan::Layout::Make({kElements}, DType::kInt16, partial_.mesh(),
                                                        {plan::Placement::Replicate()}));
  plan::ProgramBuilder program;
  plan::ValueId value = program.Input("x", layout);
  for (int i = 0; i < 4; ++i) value = program.AllReduce(value, "x", Reduction::kMax);
  program.Output("y", value);
  const DRef x = Call("lockstep.full", Shape{kElements}, 3.0, DType::kInt16, "cuda");
  const DRef filler = Unwrap(session_->Empty({58 << 20}, DType::kUInt8, 1));
  BoundPlan plan =
      Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", x}}, .functions = {}}));
  const int before = Launches();
  for (int i = 0; i < 4; ++i) EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->SyncAll());
  EXPECT_THAT(Elements<int16_t>(Unwrap(plan.Output("y")), 1), Each(3));
  ExpectLaunchesSince(before, 0);
}

// What functions return lies in memory of the graph.
TEST_P(GpuPlansTest, BuiltInFunctionsAreCaptured) {
  const DRef x = PartialOnes("cuda");
  plan::ProgramBuilder program;
  const plan::ValueId in = program.Input("x", partial_);
  const plan::Layout halves = Unwrap(
      plan::Layout::Make({8, 3}, DType::kFloat64, partial_.mesh(), {plan::Placement::Replicate()}));
  program.Output(
      "y",
      program.Call("lockstep.cast",
                   {plan::Read(program.Reshard(in, whole_)), plan::Pass(DType::kFloat64)}, halves));
  BoundPlan plan =
      Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", x}}, .functions = {}}));
  const DRef y = Unwrap(plan.Output("y"));
  const int before = Launches();
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) {
    (void)Unwrap(session_->Call(Function("lockstep.copy"),
                                Call("lockstep.full", Shape{8, 3}, value, DType::kFloat32, "cuda"),
                                x));
    EXPECT_OK(plan.Execute());
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_THAT(Elements<double>(y, rank), Each(4.0 * value));
    }
  }
  ExpectLaunchesSince(before, 3);
}

TEST_P(GpuPlansTest, AnInputInHostMemoryIsToldWhereToGo) {
  const DRef x = PartialOnes("cpu");
  (void)Unwrap(session_->Bind(ScaledSums(), Registers(x)));
  EXPECT_THAT(FailureOfSync(),
              AllOf(HasSubstr("input \"x\""),
                    HasSubstr("is on cpu:0, and the plan works on its ranks' GPUs"),
                    HasSubstr("lockstep.to_device(tensor, \"cuda\")")));
}

TEST_P(GpuTest, OutOfMemoryTellsWhoHoldsWhatAndTheWorkerLivesOn) {
  const DRef held = Unwrap(session_->Empty({kMemoryBytes / 2}, DType::kUInt8));
  (void)Unwrap(session_->Empty({kMemoryBytes}, DType::kUInt8, 1));
  EXPECT_THAT(FailureOfSync(), AllOf(HasSubstr("rank 1"), HasSubstr("cannot allocate 64 MiB"),
                                     HasSubstr("holds 32 MiB"), HasSubstr("device_memory_bytes")));
  EXPECT_OK(session_->Reset());
  (void)Unwrap(session_->Empty({kMemoryBytes / 4}, DType::kUInt8));
  EXPECT_OK(session_->SyncAll());
}

// Not only stuck: a slow machine may be so while it loads the kernel's module.
bool IsStuckInSpin(const ClusterStatus& now) {
  return now.workers[2].stuck && now.workers[2].activity.what == "spin";
}

TEST_P(GpuTest, AKernelThatNeverEndsIsSeenAsStuckAndNamed) {
  const DRef tensor = Ones({4});
  (void)Unwrap(session_->Call(Kernel("spin"), tensor));
  const DRef after = Call("lockstep.cast", tensor, DType::kFloat64);
  EXPECT_OK(session_->Flush());
  const ClusterStatus status = StatusOnce(*cluster_, IsStuckInSpin);
  EXPECT_LT(status.workers[2].activity.completed, status.workers[2].activity.launched);
  (void)Unwrap(session_->Call(Kernel("let_go")));
  EXPECT_OK(session_->SyncAll());
  StatusOnce(*cluster_, [](const ClusterStatus& now) { return !now.workers[2].stuck; });
}

TEST_P(GpuTest, CollectivesOfNothingAreCompletedToo) {
  const DRef nothing = Unwrap(session_->Empty(Shape{0}, DType::kFloat32));
  (void)Unwrap(session_->AllReduce(nothing, Reduction::kSum));
  (void)Unwrap(session_->AllGather(nothing));
  EXPECT_OK(session_->SyncAll());
  StatusOnce(*cluster_, [](const ClusterStatus& now) {
    return std::all_of(now.workers.begin(), now.workers.end(), [](const WorkerStatus& worker) {
      return worker.activity.launched == worker.activity.completed;
    });
  });
}

TEST_P(GpuTest, WhatACopyWaitsForIsNamed) {
  const DRef tensor = Ones({4});
  (void)Unwrap(session_->Call(Kernel("spin"), tensor));
  auto copy =
      std::async(std::launch::async, [&] { return session_->DebugGet(tensor, 2).status(); });
  StatusOnce(*cluster_, IsStuckInSpin);
  // That ends the wait, which is all that can be ended.
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(copy.get().code(), StatusCode::kAborted);
  (void)Unwrap(session_->Call(Kernel("let_go")));
  EXPECT_THAT(Elements<float>(Ones({3}), 1), Each(1.0f));
}

TEST_P(GpuLossTest, AnIllegalAddressIsAttributedAndCostsTheWorker) {
  EXPECT_OK(session_->SyncAll());
  const uint64_t before = Unwrap(GetClusterStatus(cluster_->address(), support::kLong)).epoch.value;
  const DRef rank = Call("lockstep.worker_rank");
  (void)Unwrap(session_->Call(Kernel("illegal_address"), Ones({4}), rank, 2));
  EXPECT_THAT(FailureOfSync(), AllOf(HasSubstr("rank 2"), HasSubstr("illegal_address"),
                                     HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
  StatusOnce(*cluster_,
             [](const ClusterStatus& now) { return now.workers[2].state != WorkerState::kReady; });
  EXPECT_OK(cluster_->ReplaceWorker(2));
  EXPECT_OK(session_->AwaitWorkers(support::kLong));
  EXPECT_GT(Unwrap(GetClusterStatus(cluster_->address(), support::kLong)).epoch.value, before);
  EXPECT_OK(session_->Reset());
  const DRef sum = Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
  EXPECT_THAT(Elements<float>(sum, 2), Each(4.0f));
}

}  // namespace
}  // namespace lockstep::testing
