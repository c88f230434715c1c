// Plans that call fragments. The compiler is a stand-in (see fragments_fixture.h).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/fragments_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::CallFragment;
using fragment::Output;
using fragment::PlanInput;
using plan::Layout;
using plan::Mesh;
using plan::Placement;
using plan::ProgramBuilder;
using plan::ValueId;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Rank> FirstRanks(int count) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class PlanFragmentsTest : public FragmentsFixture {
 protected:
  static Layout Lies(int64_t count, std::vector<Rank> ranks, Placement placement) {
    return Unwrap(
        Layout::Make({count}, DType::kFloat64, Unwrap(Mesh::Line(std::move(ranks))), {placement}));
  }
  // Calls it on some workers; the one result.
  static ValueId Add(ProgramBuilder& program, const CompiledFragment& fragment,
                     const std::vector<Rank>& workers, int64_t asked, const PlanInput& input,
                     const Output& output) {
    return Unwrap(CallFragment(program, "test", fragment.signature(), workers, {asked, input},
                               {output}))
        .results.front();
  }
  StatusOr<BoundPlan> Bind(const ProgramBuilder& program, const CompiledFragment& fragment,
                           const DRef& x) {
    return session_->Bind(Unwrap(program.Build()),
                          {.inputs = {{"x", x}}, .fragments = {{"test", fragment}}});
  }
  // A plan whose one fragment does what is asked, on the rows of ten numbers.
  BoundPlan BindOne(const CompiledFragment& fragment, int64_t asked) {
    const Layout rows = Lies(10, FirstRanks(4), Placement::Shard(0));
    ProgramBuilder program;
    const ValueId x = program.Input("x", rows);
    program.Output("y", Add(program, fragment, FirstRanks(4), asked, {x, Split::kRows},
                            {Combine::kAdd, Shape{1}}));
    return Unwrap(Bind(program, fragment, Unwrap(session_->Place(Numbers(10), rows))));
  }
  std::string Bytes(const DRef& ref) { return Unwrap(session_->Collect(ref)).data; }
  // What Session::Execute() makes of as many numbers, on all workers.
  std::string Executed(const CompiledFragment& fragment, int64_t asked, int64_t count,
                       const Output& output) {
    const std::vector<FragmentInput> inputs = {{asked}, {Numbers(count), Split::kRows}};
    return Bytes(Unwrap(session_->Execute(fragment, inputs, {output})).front());
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, PlanFragmentsTest, ::testing::ValuesIn(AllKinds()), NameOf);

// On one to four workers, of which some have no rows; also when another tensor is in the register.
TEST_P(PlanFragmentsTest, APlanDoesWhatExecuteDoes) {
  const CompiledFragment fragment = Compile();
  for (const auto& [workers, count] : std::vector<std::pair<int, int64_t>>{
           {1, 10}, {2, 10}, {3, 10}, {4, 10}, {4, 2}, {3, 1}, {4, 0}}) {
    SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(count) + " rows");
    const std::vector<Rank> ranks = FirstRanks(workers);
    const Output rows{Combine::kRows, Shape{count}};
    const Output added{Combine::kAdd, Shape{1}};
    const Layout on_one = Lies(count, {0}, Placement::Replicate());
    ProgramBuilder program;
    const ValueId x = program.Input("x", on_one);
    const ValueId doubled = Add(program, fragment, ranks, kDouble, {x, Split::kRows}, rows);
    program.Output("doubled", doubled);
    program.Output("places", Add(program, fragment, ranks, kPlaces, {x, Split::kRows}, rows));
    const ValueId sum = Add(program, fragment, ranks, kSum, {doubled, Split::kAsPlaced}, added);
    // Partial values are combined where they are needed.
    program.Output("sum", Add(program, fragment, ranks, kDouble, sum, {Combine::kNone, Shape{1}}));
    const DRef input = Unwrap(session_->Place(Numbers(count), on_one));
    BoundPlan plan = Unwrap(Bind(program, fragment, input));
    for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
    EXPECT_EQ(Bytes(Unwrap(plan.Output("doubled"))), Executed(fragment, kDouble, count, rows));
    EXPECT_EQ(Bytes(Unwrap(plan.Output("places"))), Executed(fragment, kPlaces, count, rows));
    const auto total = static_cast<double>(2 * count * (count + 1));
    EXPECT_EQ(Elements<double>(Unwrap(plan.Output("sum")), workers - 1),
              (std::vector<double>{total}));
  }
}

TEST_P(PlanFragmentsTest, WhatFailsNamesRankStepFragmentAndPlace) {
  BoundPlan plan = BindOne(Compile(), kDivideByZero);
  EXPECT_OK(plan.Execute());
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("rank "), HasSubstr("plan_fragments_test.cc:"),
                    HasSubstr("step 0 of the plan"), HasSubstr("test.mlir: `sum` divided an "),
                    HasSubstr("arith.divsi at line 3, column 10")));
  EXPECT_OK(session_->Reset());
}

TEST_P(PlanFragmentsTest, ALoopWithoutEndIsEndedByAReset) {
  BoundPlan plan = BindOne(Compile(), kUntilAborted);
  EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->Flush());
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(PlanFragmentsTest, AFragmentOfAnotherSessionOrTimeIsRefused) {
  const Layout rows = Lies(4, FirstRanks(4), Placement::Shard(0));
  const CompiledFragment fragment = Compile();
  ProgramBuilder program;
  const ValueId x = program.Input("x", rows);
  program.Output("y", Add(program, fragment, FirstRanks(4), kDouble, {x, Split::kRows},
                          {Combine::kRows, Shape{4}}));
  Session other = Open(SharedCluster(GetParam()));
  const DRef of_other = Unwrap(other.Place(Numbers(4), rows));
  const Status foreign = other
                             .Bind(Unwrap(program.Build()),
                                   {.inputs = {{"x", of_other}}, .fragments = {{"test", fragment}}})
                             .status();
  EXPECT_EQ(foreign.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(foreign),
              HasSubstr("fragment \"test\": test.mlir was compiled in another session"));
  EXPECT_OK(session_->Reset());
  const DRef own = Unwrap(session_->Place(Numbers(4), rows));
  const Status late = Bind(program, fragment, own).status();
  EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(late), HasSubstr("test.mlir was compiled; compile it again"));
  BoundPlan plan = Unwrap(Bind(program, Compile(), own));
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Elements<double>(Unwrap(plan.Output("y")), 3), (std::vector<double>{8}));
}

// What the fragment makes is not what the program says of it: before anything is sent.
TEST_P(PlanFragmentsTest, WhatDoesNotFitIsRefusedWithItsLine) {
  const CompiledFragment fragment = Compile();
  const Layout rows = Lies(4, FirstRanks(4), Placement::Shard(0));
  const DRef x = Unwrap(session_->Place(Numbers(4), rows));
  ProgramBuilder program;
  program.Call("test", {plan::Pass(0.5), plan::Read(program.Input("x", rows)),
                        plan::Write(program.Make(rows))});
  const Status status = Bind(program, fragment, x).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("plan_fragments_test.cc:"),
                                     HasSubstr("test: argument 0 of `sum`: it is int64")));
  const PlanRegisters wrong{.inputs = {{"x", x}}, .fragments = {{"tset", fragment}}};
  EXPECT_THAT(Message(session_->Bind(Unwrap(program.Build()), wrong).status()),
              HasSubstr("calls no fragment \"tset\""));
  const CompiledFragment function =
      Unwrap(session_->Compile(Unwrap(Fragment::Function("lockstep.copy"))));
  EXPECT_THAT(Message(Bind(program, function, x).status()),
              HasSubstr("it is a function of a module"));
  EXPECT_OK(session_->SyncAll());
}

}  // namespace
}  // namespace lockstep::testing
