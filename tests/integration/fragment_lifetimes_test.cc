// What becomes of fragments when sessions, registers and workers go, and of what is at the bounds.
// The compiler is a stand-in (see fragments_test.cc), which never answers to "hang".
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using ::testing::HasSubstr;

constexpr int64_t kAskedForSum = 0;
constexpr int64_t kAskedForTwice = 7;

Fragment Text(const std::string& text) { return *Fragment::Mlir(text, "test.mlir"); }

HostTensor Ones(int64_t count) {
  return HostTensor::Of<double>({count}, std::vector<double>(static_cast<size_t>(count), 1));
}

// The sum of as many ones.
StatusOr<double> SumOfOnes(Session& session, int64_t count) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<DRef> sum,
      session.Execute(Text("sum"), {{kAskedForSum}, {Ones(count), Split::kRows}},
                      {{Combine::kAdd, Shape{1}}}));
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor whole, session.Collect(sum.front()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> elements, whole.Elements<double>());
  return elements.front();
}

class FragmentLifetimesTest : public SessionFixture {
 protected:
  static plan::Layout OnAll(const Shape& shape, const plan::Placement& placement) {
    return Unwrap(plan::Layout::Make(shape, DType::kFloat64, Unwrap(plan::Mesh::Line({0, 1, 2, 3})),
                                     {placement}));
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentLifetimesTest, ::testing::ValuesIn(AllKinds()), NameOf);

// Compilers do not go on for a session that is no more: others would wait for them.
TEST_P(FragmentLifetimesTest, ASessionIsClosedWhileItsFragmentIsCompiled) {
  Session other = Open(SharedCluster(GetParam()));
  std::thread hangs([&] { EXPECT_FALSE(other.Compile(Text("hang")).ok()); });
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(other.Close());
  hangs.join();
  EXPECT_EQ(Unwrap(SumOfOnes(*session_, 10)), 10);
}

TEST_P(FragmentLifetimesTest, ATextMayBeAsLongAsTheBoundSays) {
  EXPECT_OK(session_->Compile(Text(std::string(Fragment::kMaxSourceBytes, 'x'))).status());
  EXPECT_EQ(Fragment::Mlir(std::string(Fragment::kMaxSourceBytes + 1, 'x')).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(FragmentLifetimesTest, ThousandsOfInputsAreCountedBeforeAnythingIsSent) {
  const CompiledFragment compiled = Unwrap(session_->Compile(Text("sum")));
  const DRef x = Unwrap(session_->Place(Ones(4), Split::kRows));
  const Status status =
      session_->Execute(compiled, std::vector<FragmentInput>(5000, {x, Split::kRows}), {{}})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("`sum` has 2 arguments, and 5000 are given"));
  EXPECT_OK(session_->SyncAll());
}

// A call takes its registers as they are when it is issued.
TEST_P(FragmentLifetimesTest, ARegisterMayGoAfterTheCall) {
  const CompiledFragment compiled = Unwrap(session_->Compile(Text("sum")));
  for (int i = 0; i < 20; ++i) {
    DRef x = Unwrap(session_->Place(Ones(10 + i), Split::kRows));
    const auto call = [&](int64_t asked, Split split, const FragmentOutput& output) {
      return Unwrap(session_->Execute(compiled, {{asked}, {x, split}}, {output})).front();
    };
    x = call(kAskedForTwice, Split::kRows, {Combine::kRows, Shape{10 + i}});
    // Moved, then forgotten with the copy.
    x = call(kAskedForTwice, Split::kNone, {Combine::kNone, Shape{10 + i}});
    x = call(kAskedForSum, Split::kRows, {Combine::kAdd, Shape{1}});
    EXPECT_EQ(Unwrap(Unwrap(session_->Collect(x)).Elements<double>()),
              (std::vector<double>{4.0 * (10 + i)}));
  }
}

// Parts of sums, which the plan combines, and then adds to what it is given again.
TEST_P(FragmentLifetimesTest, ResultsOfCallsAreInputsOfPlans) {
  const CompiledFragment compiled = Unwrap(session_->Compile(Text("sum")));
  const DRef sum = Unwrap(session_->Execute(compiled, {{kAskedForSum}, {Ones(7), Split::kRows}},
                                            {{Combine::kAdd, Shape{1}}}))
                       .front();
  const plan::Layout layout = Unwrap(session_->LayoutOf(sum));
  EXPECT_FALSE(layout.PartialAxes().empty());
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", layout);
  const std::vector<Rank> ranks = {0, 1, 2, 3};
  const auto add = [&](Split split, const FragmentOutput& output) {
    return Unwrap(CallFragment(program, "test", compiled.signature(), ranks,
                               {kAskedForTwice, {x, split}}, {output}))
        .results.front();
  };
  program.Output("whole", add(Split::kNone, {Combine::kNone, Shape{1}}));
  program.Output("parts", add(Split::kAsPlaced, {Combine::kAdd, Shape{1}}));
  BoundPlan plan = Unwrap(session_->Bind(
      Unwrap(program.Build()), {.inputs = {{"x", sum}}, .fragments = {{"test", compiled}}}));
  EXPECT_OK(plan.Execute());
  for (const char* output : {"whole", "parts"}) {
    EXPECT_EQ(Unwrap(Unwrap(session_->Collect(Unwrap(plan.Output(output)))).Elements<double>()),
              (std::vector<double>{14}))
        << output;
  }
}

// A fragment reads while it writes: what a plan calls it with must not be one memory.
TEST_P(FragmentLifetimesTest, APlanGivesResultsMemoryOfTheirOwn) {
  const CompiledFragment compiled = Unwrap(session_->Compile(Text("sum")));
  const plan::Layout rows = OnAll({8}, plan::Placement::Shard(0));
  const DRef input = Unwrap(session_->Place(Ones(8), rows));
  plan::ProgramBuilder same;
  const plan::ValueId one = same.Input("x", rows);
  same.Call("test", {plan::Pass(kAskedForTwice), plan::Read(one), plan::Write(one)});
  EXPECT_THAT(Message(same.Build().status()),
              HasSubstr("is written, and is another argument, too"));
  // Two registers, of one tensor.
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", rows);
  const plan::ValueId y = program.Input("y", rows);
  program.Call("test", {plan::Pass(kAskedForTwice), plan::Read(x), plan::Write(y)});
  const auto plan = session_->Bind(
      Unwrap(program.Build()), {.inputs = {{"x", input}, {"y", Call("lockstep.identity", input)}},
                                .fragments = {{"test", compiled}}});
  const Status status = plan.ok() ? session_->SyncAll() : plan.status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("share memory"));
  EXPECT_OK(session_->Reset());
}

// Values that are put together of chunks are whole when a fragment reads them, and what it writes
// may be moved in chunks.
TEST_P(FragmentLifetimesTest, AFragmentStandsBetweenCallsInChunks) {
  const CompiledFragment compiled = Unwrap(session_->Compile(Text("sum")));
  const plan::Layout rows = OnAll({64}, plan::Placement::Shard(0));
  const plan::Layout whole = OnAll({64}, plan::Placement::Replicate());
  plan::ProgramBuilder program;
  const plan::ValueId x = program.Input("x", rows);
  const plan::ValueId copied = program.CallInChunks(
      "lockstep.copy", {plan::Read(program.Reshard(x, whole))}, whole, {.count = 4});
  const std::vector<Rank> ranks = {0, 1, 2, 3};
  const plan::ValueId doubled =
      Unwrap(CallFragment(program, "test", compiled.signature(), ranks,
                          {kAskedForTwice, {copied, Split::kRows}}, {{Combine::kRows, Shape{64}}}))
          .results.front();
  program.Output(
      "y", program.CallInChunks("lockstep.copy", {plan::Read(program.Reshard(doubled, whole))},
                                whole, {.count = 4}));
  std::vector<double> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 1.0);
  const DRef input = Unwrap(session_->Place(HostTensor::Of<double>({64}, numbers), rows));
  BoundPlan plan = Unwrap(session_->Bind(
      Unwrap(program.Build()), {.inputs = {{"x", input}}, .fragments = {{"test", compiled}}}));
  for (int i = 0; i < 2; ++i) EXPECT_OK(plan.Execute());
  for (double& number : numbers) number *= 2;
  for (const Rank rank : ranks) {
    EXPECT_EQ(Elements<double>(Unwrap(plan.Output("y")), rank), numbers) << "rank " << rank;
  }
}

class FragmentCompilingLossTest : public OwnClusterFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentCompilingLossTest,
                         ::testing::Values(ClusterKind::kLocalProcesses), NameOf);

TEST_P(FragmentCompilingLossTest, AWorkerIsLostWhileItCompiles) {
  std::thread hangs([&] {
    const Status status = session_->Compile(Text("hang")).status();
    EXPECT_THAT(Message(status), HasSubstr("rank 1"));
  });
  ASSERT_EQ(kill(cluster_->worker_pids()[1], SIGKILL), 0);
  hangs.join();
  EXPECT_OK(cluster_->ReplaceWorker(1));
  EXPECT_OK(session_->AwaitWorkers(std::chrono::seconds(30)));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Unwrap(SumOfOnes(*session_, 10)), 10);
}

}  // namespace
}  // namespace lockstep::testing
