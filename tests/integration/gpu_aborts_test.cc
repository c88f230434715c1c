// Collectives that the ranks have begun, and that do not end on their GPUs.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

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

// Far below every time-out that a hang would end with.
constexpr auto kQuick = 10s;

class GpuAbortsTest : public GpuFixture {
 protected:
  // Rank 2's GPU does nothing any more before LetGo(); the ranks have all they need to begin
  // collectives.
  void HoldUpRankTwo() {
    (void)Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
    EXPECT_OK(session_->SyncAll());
    const DRef rank = Call("lockstep.worker_rank");
    (void)Unwrap(session_->Call(Kernel("spin_on"), Ones({4}), rank, 2));
  }
  void LetGo() { (void)Unwrap(session_->Call(Kernel("let_go"))); }
  WorkerActivity ActivityOf(Rank rank) {
    return Unwrap(GetClusterStatus(cluster_->address(), support::kLong))
        .workers[static_cast<size_t>(rank)]
        .activity;
  }
  template <typename IsSo>
  void AwaitThat(Rank rank, IsSo is_so) {
    const Deadline deadline = Deadline::After(support::kLong);
    while (!is_so(ActivityOf(rank))) {
      ASSERT_FALSE(deadline.Expired()) << "rank " << rank << " is in " << ActivityOf(rank).what;
      std::this_thread::sleep_for(5ms);
    }
  }
  // Rank 1 executes nothing of the session before this one is reset.
  Session HoldUpRankOne() {
    Session other = Open(*cluster_);
    (void)Unwrap(other.Call(Function(other, "lockstep.sleep"), 3600.0, 1));
    EXPECT_OK(other.Flush());
    AwaitThat(1, [](const WorkerActivity& activity) { return activity.what == "lockstep.sleep"; });
    return other;
  }
  // Ranks 0 and 2 have begun everything that was issued; rank 3 need not wait in any of it.
  void AwaitThatRanksZeroAndTwoHaveBegunAll() {
    EXPECT_OK(session_->Sync(3));
    // All that rank 3 has executed but the sync.
    const uint64_t all = ActivityOf(3).launched - 1;
    for (const Rank rank : {0, 2}) {
      AwaitThat(rank, [&](const WorkerActivity& activity) { return activity.launched >= all; });
    }
  }
  // Resetting waits for no GPU.
  void ResetQuickly() {
    const auto began = Deadline::Clock::now();
    EXPECT_OK(session_->Reset());
    EXPECT_LT(Deadline::Clock::now() - began, kQuick);
  }
  void ExpectThatCollectivesWork() {
    const DRef sum = Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      EXPECT_THAT(Elements<float>(sum, rank), Each(4.0f));
    }
  }
  // The rank's register has no value.
  void ExpectNoValue(const DRef& ref, Rank rank) {
    EXPECT_EQ(session_->DebugGet(ref, rank).status().code(), StatusCode::kNotFound)
        << "on rank " << rank;
    EXPECT_OK(session_->Reset());
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, GpuAbortsTest, ::testing::ValuesIn(GpuKinds()), NameOf);

class ImpatientGpuAbortsTest : public GpuAbortsTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options = GpuAbortsTest::OwnOptions();
    options.controller.collective_timeout = 1500ms;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, ImpatientGpuAbortsTest, ::testing::ValuesIn(GpuKinds()), NameOf);

TEST_P(GpuAbortsTest, WhatCameBeforeAFailureEndsWell) {
  HoldUpRankTwo();
  const DRef before = Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "enough", 1));
  EXPECT_THAT(FailureOfSync(), HasSubstr("enough"));
  ResetQuickly();
  LetGo();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(before, rank), Each(4.0f));
  }
  ExpectThatCollectivesWork();
}

// By one communicator, which ends for both.
TEST_P(GpuAbortsTest, OnlyWhatComesAfterTheFailureIsCutOff) {
  HoldUpRankTwo();
  const std::vector<Rank> without_one = {0, 2};
  const DRef before =
      Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum, {.team = without_one}));
  Session held_up = HoldUpRankOne();
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "enough", 1));
  const DRef after =
      Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum, {.team = without_one}));
  // Once this has begun, the collective before it is on the GPU.
  (void)Call("lockstep.nop");
  AwaitThatRanksZeroAndTwoHaveBegunAll();
  EXPECT_OK(held_up.Reset());
  EXPECT_THAT(FailureOfSync(), HasSubstr("enough"));
  ResetQuickly();
  LetGo();
  for (const Rank rank : without_one) {
    EXPECT_THAT(Elements<float>(before, rank), Each(2.0f));
    ExpectNoValue(after, rank);
  }
  ExpectThatCollectivesWork();
}

TEST_P(ImpatientGpuAbortsTest, WhatIsCutOffHasNoValueNorWhatIsMadeOfIt) {
  HoldUpRankTwo();
  const DRef mine = FullOfRank({10});
  const DRef in_place = FullOfRank({10});
  const DRef view_of_it = Call("lockstep.reshape", in_place, Shape{2, 5});
  const DRef sum = Unwrap(session_->AllReduce(mine, Reduction::kSum));
  const DRef only_read = Ones({10});
  const DRef made_of_it = Call("lockstep.concat", 0, sum, only_read);
  (void)Unwrap(session_->AllReduce(in_place, Reduction::kSum, {.destination = in_place}));
  const DRef beside = Ones({3});
  EXPECT_THAT(FailureOfSync(),
              AllOf(HasSubstr("all ranks have begun the allreduce"), HasSubstr("1500 ms")));
  ResetQuickly();
  LetGo();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    for (const DRef& ref : {sum, made_of_it, in_place, view_of_it}) ExpectNoValue(ref, rank);
    EXPECT_THAT(Elements<float>(mine, rank), Each(static_cast<float>(rank)));
    EXPECT_THAT(Elements<float>(beside, rank), Each(1.0f));
    EXPECT_THAT(Elements<float>(only_read, rank), Each(1.0f));
  }
  ExpectThatCollectivesWork();
#ifdef LOCKSTEP_FAKE_GPU
  if (GetParam() == ClusterKind::kTcpThreads) {
    EXPECT_GE(AskFakeNccl("fake_nccl_aborts"), kWorkers);
  }
#endif
}

TEST_P(ImpatientGpuAbortsTest, WhatAPlanHasWrittenWhenItIsCutOffHasNoValue) {
  const auto layout_by = [](plan::Placement placement) {
    const plan::Mesh all = Unwrap(plan::Mesh::Line({0, 1, 2, 3}));
    return Unwrap(plan::Layout::Make({10}, DType::kFloat32, all, {placement}));
  };
  const plan::Layout partial = layout_by(plan::Placement::Partial(Reduction::kSum));
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", partial);
  program.Output("y", program.Reshard(x, layout_by(plan::Placement::Replicate())));
  const plan::Program built = Unwrap(program.Build());
  const DRef ones = Ones({10});
  EXPECT_OK(session_->DeclareLayout(ones, partial));
  BoundPlan plan = Unwrap(session_->Bind(built, {.inputs = {{"x", ones}}}));
  const DRef cut_off = Unwrap(plan.Output("y"));
  HoldUpRankTwo();
  EXPECT_OK(session_->Flush());
  // A slow machine takes longer to load the kernel's module than ranks wait for each other.
  AwaitThat(2, [](const WorkerActivity& activity) { return activity.what == "spin_on"; });
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(
      FailureOfSync(),
      AllOf(HasSubstr("all ranks have begun the allreduce"), HasSubstr("gpu_aborts_test.cc:"),
            HasSubstr("step 0 of the plan (allreduce)"), HasSubstr("1500 ms")));
  ResetQuickly();
  EXPECT_THAT(Message(plan.Execute()), HasSubstr("bind it again"));
  LetGo();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    ExpectNoValue(cut_off, rank);
    EXPECT_THAT(Elements<float>(ones, rank), Each(1.0f));
  }
  plan = Unwrap(session_->Bind(built, {.inputs = {{"x", ones}}}));
  EXPECT_OK(plan.Execute());
  const DRef again = Unwrap(plan.Output("y"));
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(again, rank), Each(4.0f));
  }
}

// The communicators are aborted, the launches end by that, the graphs are destroyed, and only then
// are the communicators.
TEST_P(ImpatientGpuAbortsTest, AGraphThatIsCutOffNamesItsStepsAndEndsBeforeItsCommunicators) {
  const auto layout_by = [](plan::Placement placement) {
    const plan::Mesh all = Unwrap(plan::Mesh::Line({0, 1, 2, 3}));
    return Unwrap(plan::Layout::Make({8, 4}, DType::kFloat32, all, {placement}));
  };
  const plan::Layout partial = layout_by(plan::Placement::Partial(Reduction::kSum));
  plan::ProgramBuilder program;
  const plan::ValueId columns =
      program.Reshard(program.Input("x", partial), layout_by(plan::Placement::Shard(0)));
  program.Call("scale", {plan::Update(columns), plan::Pass(0.5)});
  program.Output("y", program.Reshard(columns, layout_by(plan::Placement::Replicate())));
  const plan::Program built = Unwrap(program.Build());
  const DRef ones = Ones({8, 4});
  EXPECT_OK(session_->DeclareLayout(ones, partial));
  const PlanRegisters registers{.inputs = {{"x", ones}}, .functions = {{"scale", Kernel("scale")}}};
  BoundPlan plan = Unwrap(session_->Bind(built, registers));
  for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->SyncAll());
  const int aborts = AskFakeNccl("fake_nccl_aborts");
  HoldUpRankTwo();
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(FailureOfSync(),
              AllOf(HasSubstr("all ranks have begun the plan, steps 0 to 2, and it has not ended"),
                    HasSubstr("gpu_aborts_test.cc:"), HasSubstr("steps 0 to 2 of the plan")));
  ResetQuickly();
  LetGo();
  ExpectNoValue(Unwrap(plan.Output("y")), 0);
  plan = Unwrap(session_->Bind(built, registers));
  for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(Unwrap(plan.Output("y")), rank), Each(2.0F));
  }
  if (GetParam() != ClusterKind::kTcpThreads || aborts < 0) return;
  const Deadline deadline = Deadline::After(support::kLong);
  while (AskFakeNccl("fake_nccl_aborts") < aborts + kWorkers && !deadline.Expired()) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_GE(AskFakeNccl("fake_nccl_aborts"), aborts + kWorkers);
  EXPECT_EQ(AskFakeNccl("fake_nccl_destroyed_before_graphs"), 0);
  EXPECT_EQ(AskFakeCuda("fake_cuda_misuses"), 0);
}

TEST_P(GpuAbortsTest, AResetGivesUpWhatIsOnTheGpu) {
  HoldUpRankTwo();
  const DRef sum = Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
  EXPECT_OK(session_->Flush());
  ResetQuickly();
  LetGo();
  for (Rank rank = 0; rank < kWorkers; ++rank) ExpectNoValue(sum, rank);
  ExpectThatCollectivesWork();
}

// Of what a client has waited for, a reset takes nothing away.
TEST_P(GpuAbortsTest, AResetKeepsWhatWasDone) {
  const DRef sum = Unwrap(session_->AllReduce(Ones({10}), Reduction::kSum));
  EXPECT_OK(session_->SyncAll());
  ResetQuickly();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(sum, rank), Each(4.0f));
  }
}

// What a rank that is through has yet to send would go with an abort.
TEST_P(GpuAbortsTest, ARankThatIsThroughTakesNothingAwayFromOthers) {
  HoldUpRankTwo();
  const DRef before = Unwrap(session_->Broadcast(Ones({10}), 0));
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "enough", 1));
  EXPECT_THAT(FailureOfSync(), HasSubstr("enough"));
  ResetQuickly();
  std::this_thread::sleep_for(200ms);
  LetGo();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(before, rank), Each(1.0f)) << "rank " << rank;
  }
}

TEST_P(GpuAbortsTest, HostMemoryIsNotFilledWithWhatWasCutOff) {
  HoldUpRankTwo();
  const std::vector<Rank> without_one = {0, 2};
  const DRef host = Call("lockstep.full", Shape{10}, 7.0, DType::kFloat32, "cpu");
  const DRef mine = Ones({10});
  Session held_up = HoldUpRankOne();
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "enough", 1));
  (void)Unwrap(
      session_->AllReduce(mine, Reduction::kSum, {.team = without_one, .destination = mine}));
  (void)Call("lockstep.nop");
  AwaitThatRanksZeroAndTwoHaveBegunAll();
  (void)Unwrap(session_->Call(Function("lockstep.copy"), mine, host));
  EXPECT_OK(session_->Flush());
  // Ranks 0 and 2 wait in the copy by then, or skip it.
  std::this_thread::sleep_for(100ms);
  EXPECT_OK(held_up.Reset());
  EXPECT_THAT(FailureOfSync(), HasSubstr("enough"));
  ResetQuickly();
  LetGo();
  ExpectNoValue(mine, 0);
  // It holds what it held, or it was being written: then it has no value.
  const auto value = session_->DebugGet(host, 0);
  if (value.ok()) {
    EXPECT_THAT(Elements<float>(host, 0), Each(7.0f));
  } else {
    EXPECT_EQ(value.status().code(), StatusCode::kNotFound) << value.status();
    EXPECT_OK(session_->Reset());
  }
}

// More teams than a rank keeps, behind a GPU that is held up for longer than an end in order takes.
TEST_P(GpuAbortsTest, CommunicatorsThatMakeRoomForOthersEndTheirCollectives) {
#ifndef LOCKSTEP_FAKE_GPU
  GTEST_SKIP()
      << "NCCL was not through with a communicator that takes another one's room while the "
         "GPU is held up, here by what only a later call ends";
#endif
  HoldUpRankTwo();
  std::vector<Rank> team = {0, 1, 2, 3};
  std::vector<DRef> sums;
  do {
    sums.push_back(Unwrap(session_->AllReduce(FullOfRank({10}), Reduction::kSum, {.team = team})));
  } while (std::next_permutation(team.begin(), team.end()) && sums.size() < 20);
  EXPECT_OK(session_->Flush());
  std::this_thread::sleep_for(3s);
  LetGo();
  for (const DRef& sum : sums) EXPECT_THAT(Elements<float>(sum, 1), Each(0.0f + 1 + 2 + 3));
#ifdef LOCKSTEP_FAKE_GPU
  if (GetParam() == ClusterKind::kTcpThreads) {
    // 16 teams, the world of this session, and the one that all are split from.
    const Deadline deadline = Deadline::After(kQuick);
    while (AskFakeNccl("fake_nccl_live_communicators") > kWorkers * 18 && !deadline.Expired()) {
      std::this_thread::sleep_for(5ms);
    }
    EXPECT_LE(AskFakeNccl("fake_nccl_live_communicators"), kWorkers * 18);
  }
#endif
}

}  // namespace
}  // namespace lockstep::testing
