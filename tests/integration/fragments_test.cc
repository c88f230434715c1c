// Fragments: compiled on every worker, and called on its part of the data.
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/client/admin.h"
#include "tests/integration/fragments_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class FragmentsTest : public FragmentsFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(FragmentsTest, RowsAreDealtOutAndSumsAreAdded) {
  const CompiledFragment sum = Compile();
  EXPECT_EQ(sum.signature().ToString(), "sum(int64, float64[?]) -> (float64[?])");
  const DRef parts = Unwrap(session_->Execute(sum, {{int64_t{kSum}}, {Numbers(10), Split::kRows}},
                                              {{Combine::kAdd, Shape{1}}}))
                         .front();
  // 3, 3, 2 and 2 of them.
  EXPECT_EQ(Elements<double>(parts, 0), (std::vector<double>{1 + 2 + 3}));
  EXPECT_EQ(Elements<double>(parts, 3), (std::vector<double>{9 + 10}));
  EXPECT_EQ(Collected(parts), (std::vector<double>{55}));
}

TEST_P(FragmentsTest, RowsArePutTogether) {
  const DRef doubled = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  EXPECT_EQ(Elements<double>(doubled, 1), (std::vector<double>{8, 10, 12}));
  EXPECT_EQ(Collected(doubled), (std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}));
}

// Those without rows contribute what changes nothing.
TEST_P(FragmentsTest, MoreWorkersThanRows) {
  for (const int64_t rows : {0, 1, 2}) {
    const FragmentInput input{Numbers(rows), Split::kRows};
    const DRef placed = Unwrap(session_->Place(Numbers(rows), ByRows({rows})));
    const double sum = static_cast<double>(rows * (rows + 1)) / 2;
    EXPECT_EQ(Collected(Execute(kSum, {placed, Split::kRows}, {Combine::kAdd, Shape{1}})),
              (std::vector<double>{sum}));
    if (rows > 0) {
      const DRef least = Execute(kSum, {placed, Split::kRows}, {Combine::kMin, Shape{1}});
      EXPECT_EQ(Collected(least), (std::vector<double>{1}));
    }
    const DRef doubled = Execute(kDouble, {placed, Split::kRows}, {Combine::kRows, Shape{rows}});
    EXPECT_EQ(Elements<double>(doubled, 3), std::vector<double>());
    EXPECT_EQ(Collected(doubled).size(), static_cast<size_t>(rows));
  }
}

// Each worker has all of it, so all have the same sum, which is not combined.
TEST_P(FragmentsTest, WholeTensorsGiveWholeResults) {
  const DRef sum = Execute(kSum, {Numbers(10)}, {Combine::kNone, Shape{1}});
  EXPECT_EQ(Elements<double>(sum, 2), (std::vector<double>{55}));
  EXPECT_EQ(Collected(sum), (std::vector<double>{55}));
  const Status added =
      session_
          ->Execute(Source("sum"), {{int64_t{kSum}}, {Numbers(10)}}, {{Combine::kAdd, Shape{1}}})
          .status();
  EXPECT_EQ(added.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(added), HasSubstr("no argument is split"));
}

TEST_P(FragmentsTest, PartsKnowWhereTheyLie) {
  const DRef places = Execute(kPlaces, {Numbers(7), Split::kRows}, {Combine::kRows, Shape{7}});
  EXPECT_EQ(Collected(places), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
}

// The fragment tells how large its results become: the client asks when it needs to know.
TEST_P(FragmentsTest, ShapesNeedNotBeGiven) {
  const DRef doubled = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows});
  const DRef sum = Execute(kSum, {doubled, Split::kRows}, {Combine::kAdd});
  EXPECT_EQ(Collected(sum), (std::vector<double>{2 * 55}));
  EXPECT_EQ(Collected(doubled).size(), 10u);
  EXPECT_EQ(Unwrap(session_->LayoutOf(doubled)).shape(), Shape{10});
}

// A result that is distributed is what the next fragment takes, and sums are summed when they are
// needed.
TEST_P(FragmentsTest, ResultsAreArguments) {
  DRef values = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  values = Execute(kDouble, {values, Split::kAsPlaced}, {Combine::kRows, Shape{10}});
  const DRef sum = Execute(kSum, {values, Split::kRows}, {Combine::kAdd, Shape{1}});
  const DRef whole = Execute(kDouble, {sum, Split::kNone}, {Combine::kNone, Shape{1}});
  EXPECT_EQ(Elements<double>(whole, 3), (std::vector<double>{2 * 4 * 55}));
}

// To `lockstep registers`, whichever client executed them.
TEST_P(FragmentsTest, WorkersTellHowResultsLie) {
  if (GetParam() == ClusterKind::kLocalThreads) {
    GTEST_SKIP() << "inproc endpoints cannot be asked from outside";
  }
  const DRef doubled = Execute(kDouble, {Numbers(10), Split::kRows}, {Combine::kRows, Shape{10}});
  const DRef sums = Execute(kSum, {doubled, Split::kRows}, {Combine::kAdd, Shape{1}});
  EXPECT_OK(session_->SyncAll());
  for (const RankRegisters& rank : Unwrap(ListRegisters(
           SharedCluster(GetParam()).address(), {.session = session_->id()}, support::kLong))) {
    ASSERT_EQ(rank.sessions.size(), 1u) << "rank " << rank.rank << ": " << rank.why;
    std::map<uint64_t, std::string> layouts;
    for (const HeldRegister& held : rank.sessions[0].listed) {
      if (held.layout == nullptr) continue;
      layouts[held.id.Packed()] = held.layout->placements.at(0) + " of " +
                                  Shape(held.layout->shape).ToString() + ", here " +
                                  Shape(held.shape).ToString();
    }
    const std::string tile = rank.rank < 2 ? "[3]" : "[2]";
    EXPECT_EQ(layouts[doubled.id().Packed()], "shard(0) of [10], here " + tile) << rank.rank;
    EXPECT_EQ(layouts[sums.id().Packed()], "partial(sum) of [1], here [1]") << rank.rank;
  }
}

// What was moved once is used again, unless something else is there by now.
TEST_P(FragmentsTest, WhatIsOverwrittenIsMovedAgain) {
  const auto sum = [&](const DRef& ref) {
    return Collected(Execute(kSum, {ref, Split::kRows}, {Combine::kAdd, Shape{1}}));
  };
  const plan::Layout whole =
      Unwrap(plan::Layout::Make({10}, DType::kFloat64, Unwrap(plan::Mesh::Line({0, 1, 2, 3})),
                                {plan::Placement::Replicate()}));
  const DRef placed = Unwrap(session_->Place(Numbers(10), whole));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(placed), (std::vector<double>{55}));
  const HostTensor ones = HostTensor::Of<double>({10}, std::vector<double>(10, 1.0));
  for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_OK(session_->DebugSet(placed, rank, ones));
  EXPECT_OK(session_->DeclareLayout(placed, whole));
  EXPECT_EQ(sum(placed), (std::vector<double>{10}));
  // A function may write to what it is given, and the session does not know which do.
  Call("lockstep.copy", Call("lockstep.full", Shape{10}, 2.0, DType::kFloat64), placed);
  EXPECT_OK(session_->DeclareLayout(placed, whole));
  EXPECT_EQ(sum(placed), (std::vector<double>{20}));
}

// Numbers that change, and what follows from them, are no new call.
TEST_P(FragmentsTest, NumbersDecideHowLargeResultsAre) {
  const CompiledFragment compiled = Compile();
  const DRef placed = Unwrap(session_->Place(Numbers(10), ByRows({10})));
  for (int i = 0; i < 3; ++i) {
    for (const auto& [asked, size] : {std::pair{kSum, 4u}, std::pair{kDouble, 10u}}) {
      const DRef result =
          Unwrap(session_->Execute(compiled, {{int64_t{asked}}, {placed, Split::kRows}},
                                   {{Combine::kRows}}))
              .front();
      EXPECT_EQ(Collected(result).size(), size);
    }
  }
}

TEST_P(FragmentsTest, SessionsExecuteTheSameFragmentAtOnce) {
  const auto work = [](Session& session, int64_t count) {
    for (int i = 0; i < 20; ++i) {
      const auto sum = session.Execute(
          Source("sum"), {{int64_t{kSum}}, {Numbers(count), Split::kRows}}, {{Combine::kAdd}});
      ASSERT_EQ(sum.status(), OkStatus());
      const HostTensor whole = Unwrap(session.Collect(sum->front()));
      EXPECT_EQ(Unwrap(whole.Elements<double>()).front(),
                static_cast<double>(count * (count + 1) / 2));
    }
  };
  Session other = Open(SharedCluster(GetParam()));
  std::thread beside([&] { work(other, 7); });
  work(*session_, 10);
  beside.join();
}

// What is moved is counted, and what lies as it is wanted is not moved.
TEST_P(FragmentsTest, ALoopMovesNothing) {
  const CompiledFragment compiled = Compile();
  const plan::Layout on_one = Unwrap(plan::Layout::Make(
      {10}, DType::kFloat64, Unwrap(plan::Mesh::Line({0})), {plan::Placement::Replicate()}));
  const DRef data = Unwrap(session_->Place(Numbers(10), on_one));
  DRef sum;
  const auto execute = [&](const FragmentInput& input) {
    sum = Unwrap(session_->Execute(compiled, {{int64_t{kSum}}, input}, {{Combine::kAdd, Shape{1}}}))
              .front();
    return session_->fragment_traffic();
  };
  EXPECT_EQ(session_->fragment_traffic().executions, 0u);
  // Rank 0 keeps its 3 of 10 rows.
  EXPECT_EQ(execute({data, Split::kRows}).moved_bytes, 7 * sizeof(double));
  FragmentTraffic traffic;
  for (int i = 0; i < 1000; ++i) traffic = execute({data, Split::kRows});
  EXPECT_EQ(traffic.moved_bytes, 7 * sizeof(double));
  EXPECT_EQ(traffic.executions, 1001u);
  EXPECT_EQ(traffic.sent_bytes, 0u);
  EXPECT_EQ(Collected(sum), (std::vector<double>{55}));
  // The client's tensor is sent, and dealt out.
  traffic = execute({Numbers(10), Split::kRows});
  EXPECT_EQ(traffic.sent_bytes, 10 * sizeof(double));
  EXPECT_EQ(traffic.moved_bytes, 2 * 7 * sizeof(double));
}

}  // namespace
}  // namespace lockstep::testing
