// Memory of GPUs that is registered with NCCL, on fake ones: what only those tell.
#include "runtime/plan/program.h"
#include "tests/integration/gpu_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::Each;

class RegisteredMemoryTest : public GpuFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options = GpuFixture::OwnOptions();
    options.worker.registered_memory_bytes = 1 << 20;
    return options;
  }
  // By ranks of this process, from and to registered memory.
  static int AllReduces() { return AskFakeNccl("fake_nccl_allreduces_of_registered"); }
};
INSTANTIATE_TEST_SUITE_P(Clusters, RegisteredMemoryTest,
                         ::testing::Values(ClusterKind::kTcpThreads), NameOf);

TEST_P(RegisteredMemoryTest, IsWhatTensorsHaveFirstAndIsGivenBack) {
  const int before = AllReduces();
  const DRef sum = Unwrap(session_->AllReduce(Ones({1000}), Reduction::kSum));
  EXPECT_THAT(Elements<float>(sum, 0), Each(4.0f));
  EXPECT_EQ(AllReduces(), before + kWorkers) << "one for each rank";
  EXPECT_GE(AskFakeNccl("fake_nccl_live_registrations"), kWorkers);
  // What does not fit comes from elsewhere.
  const DRef large_sum = Unwrap(session_->AllReduce(Ones({1 << 20}), Reduction::kSum));
  EXPECT_THAT(Elements<float>(large_sum, 0), Each(4.0f));
  EXPECT_EQ(AllReduces(), before + kWorkers);
  EXPECT_OK(session_->Close());
  EXPECT_OK(cluster_->Stop());
  cluster_.reset();
  EXPECT_EQ(AskFakeNccl("fake_nccl_live_registrations"), 0);
}

// NCCL wants registered memory of all ranks, at the same place, or of none.
TEST_P(RegisteredMemoryTest, RanksThatDoNotLieAlikeUseOtherMemory) {
  // Rank 1's region is full, and that of rank 2 begins with something else.
  const DRef filler = Unwrap(session_->Empty({1 << 20}, DType::kUInt8, 1));
  const DRef first = Unwrap(session_->Empty({1000}, DType::kUInt8, 2));
  const int before = AllReduces();
  const DRef mine = FullOfRank({6, 5});
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements<float>(Unwrap(session_->AllReduce(mine, Reduction::kSum)), rank),
                Each(0.0f + 1 + 2 + 3));
  }
  EXPECT_EQ(AllReduces(), before);
  EXPECT_THAT(Elements<float>(Unwrap(session_->Broadcast(mine, 2)), 0), Each(2.0f));
  EXPECT_THAT(Elements<float>(Unwrap(session_->Broadcast(mine, 0)), 2), Each(0.0f));
  EXPECT_THAT(Elements<float>(Unwrap(session_->ReduceScatter(mine, Reduction::kMax)), 3),
              Each(3.0f));
  const std::vector<float> gathered = Elements<float>(Unwrap(session_->AllGather(mine)), 1);
  ASSERT_EQ(gathered.size(), 120u);
  for (size_t i = 0; i < gathered.size(); ++i) EXPECT_EQ(static_cast<size_t>(gathered[i]), i / 30);
  EXPECT_THAT(Elements<float>(Unwrap(session_->Reduce(mine, Reduction::kSum, 3)), 3), Each(6.0f));
  EXPECT_THAT(Elements<float>(Unwrap(session_->Scatter(mine, 3)), 0), Each(3.0f));
  EXPECT_EQ(Elements<float>(Unwrap(session_->Gather(mine, 2)), 2), gathered);
  const DRef exchanged = Unwrap(session_->AllToAll(FullOfRank({4, 2})));
  EXPECT_EQ(Elements<float>(exchanged, 1), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_THAT(Elements<float>(Unwrap(session_->Transfer(mine, 1, 2)), 2), Each(1.0f));
}

// Rank 1 has more than the others in the plan's memory, and larger tensors come first there.
TEST_P(RegisteredMemoryTest, PlansPassTheSamePlaceOnAllRanks) {
  const plan::Mesh all = Unwrap(plan::Mesh::Line({0, 1, 2, 3}));
  const auto vector_on = [](const plan::Mesh& mesh, int64_t count) {
    return Unwrap(
        plan::Layout::Make({count}, DType::kFloat32, mesh, {plan::Placement::Replicate()}));
  };
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", vector_on(all, 1000));
  const plan::ValueId z = program.Input("z", vector_on(all, 4000));
  program.Output("alone", program.As(z, vector_on(Unwrap(plan::Mesh::Line({1})), 4000)));
  program.Output("sum", program.AllReduce(x, "x", Reduction::kSum));
  BoundPlan plan = Unwrap(
      session_->Bind(Unwrap(program.Build()),
                     {.inputs = {{"x", Ones({1000})}, {"z", Ones({4000})}}, .functions = {}}));
  const DRef sum = Unwrap(plan.Output("sum"));
  const int before = AllReduces();
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(Elements<float>(sum, 1), Each(4.0f));
  EXPECT_THAT(Elements<float>(Unwrap(plan.Output("alone")), 1), Each(1.0f));
  EXPECT_EQ(AllReduces(), before + kWorkers) << "none of them was copied";
}

// What is passed to a collective is a part of what a function has returned, which lies elsewhere
// each time.
TEST_P(RegisteredMemoryTest, ChunksOfWhatAFunctionReturnsAreCopiedWhereRanksDoNotLieAlike) {
  const plan::Mesh all = Unwrap(plan::Mesh::Line({0, 1, 2, 3}));
  const auto layout = [&](plan::Placement placement) {
    return Unwrap(plan::Layout::Make({1000, 2}, DType::kFloat32, all, {placement}));
  };
  const plan::Layout sums = layout(plan::Placement::Partial(Reduction::kSum));
  const plan::Layout whole = layout(plan::Placement::Replicate());
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", sums);
  const plan::ValueId returned = program.Call("lockstep.copy", {plan::Read(x)}, sums);
  program.Output(
      "y", program.CallInChunks("lockstep.copy", {plan::Read(program.Reshard(returned, whole))},
                                whole, {.count = 2}));
  DRef ones = Ones({1000, 2});
  EXPECT_OK(session_->DeclareLayout(ones, sums));
  BoundPlan plan =
      Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", ones}}, .functions = {}}));
  const DRef y = Unwrap(plan.Output("y"));
  int before = AllReduces();
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(Elements<float>(y, 1), Each(4.0f));
  EXPECT_EQ(AllReduces(), before + 2 * kWorkers) << "two chunks";
  // Rank 1 has something else where the others have what the function returns.
  const DRef other = Unwrap(session_->Empty({1000}, DType::kFloat32, 1));
  before = AllReduces();
  for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
  EXPECT_THAT(Elements<float>(y, 1), Each(4.0f));
  EXPECT_EQ(AllReduces(), before) << "they do not lie alike";
}

TEST_P(RegisteredMemoryTest, RanksWithTensorsInDifferentMemoryAreToldSo) {
  ExpectDisagreementAboutMemory();
}

}  // namespace
}  // namespace lockstep::testing
