// Programs that are bound once and executed often.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/plan/program.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using plan::Layout;
using plan::Mesh;
using plan::Pass;
using plan::Placement;
using plan::Program;
using plan::ProgramBuilder;
using plan::Read;
using plan::ValueId;
using plan::Write;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PlansTest : public SessionFixture {
 protected:
  static Layout LayoutOf(std::vector<Rank> ranks, Placement placement,
                         DType dtype = DType::kInt32) {
    return Unwrap(Layout::Make({5, 6}, dtype, Unwrap(Mesh::Line(std::move(ranks))), {placement}));
  }
  static HostTensor Numbers(int32_t first) {
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < 30; ++i) numbers.push_back(first + i);
    return HostTensor::Of<int32_t>({5, 6}, numbers);
  }

  const Layout rows_ = LayoutOf({0, 1, 2, 3}, Placement::Shard(0));
  const Layout columns_ = LayoutOf({2, 0}, Placement::Shard(1));
  const Layout float_columns_ = LayoutOf({2, 0}, Placement::Shard(1), DType::kFloat32);

  // Rows on four ranks become columns on two, are written to memory of the plan, and cast.
  Program Columns() const {
    ProgramBuilder program;
    const ValueId x = program.Input("x", rows_);
    const ValueId columns = program.Reshard(x, columns_);
    const ValueId copy = program.Make(columns_);
    program.Call("lockstep.copy", {Read(columns), Write(copy)});
    program.Output("columns", copy);
    program.Output("floats", program.Call("lockstep.cast", {Read(copy), Pass(DType::kFloat32)},
                                          float_columns_));
    program.Output("back", program.Reshard(copy, rows_));
    return Unwrap(program.Build());
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, PlansTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(PlansTest, AProgramIsExecutedAsOftenAsOneLikes) {
  const DRef x = Unwrap(session_->Place(Numbers(0), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  const DRef columns = Unwrap(plan.Output("columns"));
  for (int32_t round = 0; round < 3; ++round) {
    // The plan reads what is in the register when it is executed.
    const DRef next = Unwrap(session_->Place(Numbers(100 * round), rows_));
    Unwrap(session_->Call(Function("lockstep.copy"), next, x));
    EXPECT_OK(plan.Execute());
    EXPECT_EQ(Unwrap(session_->Collect(columns)), Numbers(100 * round));
    EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("back")))), Numbers(100 * round));
    const HostTensor floats = Unwrap(session_->Collect(Unwrap(plan.Output("floats"))));
    EXPECT_EQ(Unwrap(floats.Elements<float>())[29], static_cast<float>(100 * round + 29));
  }
  EXPECT_EQ(session_->DebugGet(columns, 1).status().code(), StatusCode::kNotFound)
      << "rank 1 is not of that mesh";
}

TEST_P(PlansTest, AnotherTensorInTheInputsRegisterIsRead) {
  const DRef x = Unwrap(session_->Place(Numbers(0), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->DebugSet(
      x, 3, HostTensor::Of<int32_t>({1, 6}, std::vector<int32_t>{7, 7, 7, 7, 7, 7})));
  EXPECT_OK(plan.Execute());
  const HostTensor back = Unwrap(session_->Collect(Unwrap(plan.Output("back"))));
  EXPECT_EQ(Unwrap(back.Elements<int32_t>())[29], 7);
  // One of another shape is told, with the input and the rank.
  EXPECT_OK(session_->DebugSet(x, 3, HostTensor::Of<int32_t>({1}, std::vector<int32_t>{7})));
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(Message(session_->SyncAll()),
              AllOf(HasSubstr("rank 3"), HasSubstr("input \"x\" is int32[1, 6], and register")));
}

TEST_P(PlansTest, AResetEndsAPlanAndBindingAgainBringsItBack) {
  const DRef x = Unwrap(session_->Place(Numbers(5), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->Reset());
  const Status status = plan.Execute();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("reset since the plan was bound; bind it again"));
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("back")))), Numbers(5))
      << "its outputs are registers like any other";
  plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("back")))), Numbers(5));
}

TEST_P(PlansTest, IfARankCannotBindNoneExecutes) {
  ProgramBuilder program;
  program.Call("lockstep.copy",
               {Read(program.Input("a", rows_)), Write(program.Input("b", rows_))});
  const DRef a = Unwrap(session_->Place(Numbers(0), rows_));
  const DRef b = Unwrap(session_->Place(Numbers(100), rows_));
  EXPECT_OK(session_->DebugSet(b, 1, int64_t{3}));
  BoundPlan plan =
      Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"a", a}, {"b", b}}}));
  const Status executed = plan.Execute();  // either is sent before anyone knows, or told of it
  const Status bound = session_->SyncAll();
  for (const Status& status : {executed.ok() ? bound : executed, bound}) {
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("rank 1"), HasSubstr("bind"), HasSubstr("input \"b\"")));
  }
  EXPECT_OK(session_->Reset());
  for (const Rank rank : {0, 2, 3}) {
    const Value tile = Unwrap(session_->DebugGet(b, rank));
    EXPECT_GE(Unwrap(tile.As<HostTensor>()->Elements<int32_t>())[0], 100)
        << "rank " << rank << " has executed it";
  }
}

TEST_P(PlansTest, AFailureInsideNamesTheLineAndTheRank) {
  ProgramBuilder program;
  const ValueId x = program.Input("x", rows_);
  program.Call("lockstep.copy", {Read(x), Write(program.Make(rows_))});
  const ValueId whole = program.Reshard(x, LayoutOf({0, 1, 2, 3}, Placement::Replicate()));
  const ValueId bad = program.Make(columns_);
  program.Call("lockstep.copy", {Read(program.Reshard(whole, columns_)), Write(bad)});
  program.Output("y", program.Call("lockstep.reshape", {Read(bad), Pass(Shape({5, 3}))}, columns_));
  const DRef input = Unwrap(session_->Place(Numbers(0), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", input}}}));
  EXPECT_OK(plan.Execute());
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("plans_test.cc:"), HasSubstr("of the plan (call)"),
                    HasSubstr("lockstep.reshape"), HasSubstr("returned memory of its argument")));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Unwrap(session_->Collect(input)), Numbers(0));
}

TEST_P(PlansTest, AFailureElsewhereEndsAnExecutionThatWaits) {
  const DRef x = Unwrap(session_->Place(Numbers(0), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "the first cause", 3));
  (void)plan.Execute();
  EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("the first cause"));
  EXPECT_OK(session_->Reset());
  plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("back")))), Numbers(0));
}

// Lanes that overlap: in clusters over TCP, however many cores there are.
class PlanLanesTest : public PlansTest {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_DEVICE") != nullptr) GTEST_SKIP() << "GPUs have streams";
    PlansTest::SetUp();
    if (!IsSkipped()) module_ = Unwrap(session_->LoadModule("test_module.so"));
  }
  void TearDown() override {
    module_ = DRef();
    PlansTest::TearDown();
  }
  DRef InModule(const char* name) { return Unwrap(session_->GetFunction(module_, name)); }
  DRef PlaceOn(const Layout& layout) { return Unwrap(session_->Place(Numbers(1), layout)); }

  const Layout on_zero_ = LayoutOf({0}, Placement::Replicate());
  const Layout on_one_ = LayoutOf({1}, Placement::Replicate());
  DRef module_;
};
INSTANTIATE_TEST_SUITE_P(Clusters, PlanLanesTest, ::testing::Values(ClusterKind::kTcpThreads),
                         NameOf);

// Rank 1 sends when rank 0 has called a function that comes, on rank 0, after what it receives.
TEST_P(PlanLanesTest, FunctionsGoOnBesideExchanges) {
  ProgramBuilder program;
  const ValueId x = program.Input("x", on_one_);
  const ValueId y = program.Input("y", on_zero_);
  program.Call("await_mark", {Update(x)});
  program.Output("x", program.Reshard(x, on_zero_));
  program.Call("mark", {Update(y)});
  BoundPlan plan = Unwrap(session_->Bind(
      Unwrap(program.Build()),
      {.inputs = {{"x", PlaceOn(on_one_)}, {"y", PlaceOn(on_zero_)}},
       .functions = {{"await_mark", InModule("await_mark")}, {"mark", InModule("mark")}}}));
  for (int i = 0; i < 20; ++i) EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("x")))), Numbers(1));
}

// The lane waits for rank 1, which is busy: who fails beside that tells its cause at once.
TEST_P(PlanLanesTest, AFunctionThatFailsEndsTheExchangeBesideIt) {
  ProgramBuilder program;
  const ValueId y = program.Input("y", on_zero_);
  program.Output("x", program.Reshard(program.Input("x", on_one_), on_zero_));
  program.Call("escape_int", {Update(y)});
  BoundPlan plan = Unwrap(session_->Bind(
      Unwrap(program.Build()), {.inputs = {{"x", PlaceOn(on_one_)}, {"y", PlaceOn(on_zero_)}},
                                .functions = {{"escape_int", InModule("escape_int")}}}));
  EXPECT_OK(session_->SyncAll());
  Session other = Open(SharedCluster(GetParam()));
  (void)Unwrap(other.Call(Function(other, "lockstep.sleep"), 3600.0, 1));
  EXPECT_OK(other.Flush());
  EXPECT_OK(plan.Execute());
  EXPECT_THAT(Message(session_->Sync(0)),
              AllOf(HasSubstr("rank 0"), HasSubstr("escape_int"), HasSubstr("plans_test.cc:"),
                    HasSubstr("step 1 of the plan (call)")));
  EXPECT_OK(other.Reset());
  EXPECT_OK(session_->Reset());
}

TEST_P(PlansTest, WhatDoesNotFitIsRefusedHere) {
  const auto message = [](const auto& result) {
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << result.status();
    return Message(result.status());
  };
  const DRef x = Unwrap(session_->Place(Numbers(0), columns_));
  EXPECT_THAT(message(session_->Bind(Columns(), {})), HasSubstr("input \"x\" is not given"));
  EXPECT_THAT(message(session_->Bind(Columns(), {.inputs = {{"x", x}}})),
              HasSubstr("in the program, and its register holds int32[5, 6]"));
  EXPECT_THAT(message(session_->Bind(Columns(), {.inputs = {{"x", x}, {"y", x}}})),
              HasSubstr("the program has no input \"y\""));
  ProgramBuilder far;
  far.Output("y", far.Reshard(far.Input("x", LayoutOf({9}, Placement::Replicate())), columns_));
  EXPECT_THAT(message(session_->Bind(Unwrap(far.Build()), {.inputs = {{"x", x}}})),
              HasSubstr("a mesh of the program: there is no rank 9"));
  BoundPlan nothing;
  EXPECT_EQ(nothing.Execute().code(), StatusCode::kFailedPrecondition);
  EXPECT_OK(session_->SyncAll());
}

TEST_P(PlansTest, TwoSessionsExecuteTheirPlansAtOnce) {
  Session other = Open(SharedCluster(GetParam()));
  const DRef mine = Unwrap(session_->Place(Numbers(1), rows_));
  const DRef theirs = Unwrap(other.Place(Numbers(2), rows_));
  BoundPlan first = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", mine}}}));
  BoundPlan second = Unwrap(other.Bind(Columns(), {.inputs = {{"x", theirs}}}));
  std::thread thread([&] {
    for (int i = 0; i < 50; ++i) EXPECT_OK(second.Execute());
  });
  for (int i = 0; i < 50; ++i) EXPECT_OK(first.Execute());
  thread.join();
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(first.Output("back")))), Numbers(1));
  EXPECT_EQ(Unwrap(other.Collect(Unwrap(second.Output("back")))), Numbers(2));
  EXPECT_OK(other.Close());
  EXPECT_EQ(second.Execute().code(), StatusCode::kFailedPrecondition);
}

TEST_P(PlansTest, AnInputThatIsWrittenSharesMemoryWithNoOther) {
  ProgramBuilder program;
  const ValueId a = program.Input("a", rows_);
  const ValueId b = program.Input("b", rows_);
  program.Call("lockstep.copy", {Read(a), Write(b)});
  const Program built = Unwrap(program.Build());
  const DRef x = Unwrap(session_->Place(Numbers(0), rows_));
  (void)Unwrap(session_->Bind(built, {.inputs = {{"a", x}, {"b", x}}}));
  EXPECT_THAT(Message(session_->SyncAll()),
              AllOf(HasSubstr("inputs \"a\" and \"b\" share memory"), HasSubstr("rank ")));
  EXPECT_OK(session_->Reset());
  const DRef y = Unwrap(session_->Place(Numbers(1), rows_));
  BoundPlan plan = Unwrap(session_->Bind(built, {.inputs = {{"a", x}, {"b", y}}}));
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(y)), Numbers(0)) << "in place";
}

TEST_P(PlansTest, WhatIsPutIntoAnOutputIsReplaced) {
  const DRef x = Unwrap(session_->Place(Numbers(3), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}}));
  const DRef back = Unwrap(plan.Output("back"));
  EXPECT_OK(session_->DebugSet(back, 1, HostTensor::Of<int32_t>({1}, std::vector<int32_t>{0})));
  EXPECT_OK(plan.Execute());
  EXPECT_OK(session_->DeclareLayout(back, rows_));
  EXPECT_EQ(Unwrap(session_->Collect(back)), Numbers(3));
}

TEST_P(PlansTest, AProgramMayHaveHundredsOfInputsAndOutputs) {
  constexpr int kMany = 500;
  ProgramBuilder program;
  PlanRegisters registers;
  const DRef x = Unwrap(session_->Place(Numbers(2), rows_));
  for (int i = 0; i < kMany; ++i) {
    const std::string number = std::to_string(i);
    const ValueId in = program.Input("in" + number, rows_);
    registers.inputs["in" + number] = x;
    const ValueId out = program.Make(rows_);
    program.Call("copy" + number, {Read(in), Write(out)});
    registers.functions["copy" + number] = Function("lockstep.copy");
    program.Output("out" + number, out);
  }
  BoundPlan plan = Unwrap(session_->Bind(Unwrap(program.Build()), registers));
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("out499")))), Numbers(2));
}

// Each plan made its own, until no session of the cluster had room for another.
TEST_P(PlansTest, PlansShareTheConnectionsOfATeam) {
  const DRef x = Unwrap(session_->Place(Numbers(2), rows_));
  std::vector<BoundPlan> plans;
  for (int i = 0; i < 300; ++i) {
    plans.push_back(Unwrap(session_->Bind(Columns(), {.inputs = {{"x", x}}})));
    EXPECT_OK(plans.back().Execute());
  }
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plans.back().Output("back")))), Numbers(2));
}

// What a function has returned is kept while a later step reads it.
TEST_P(PlansTest, WhatIsReturnedLivesUntilItsLastUse) {
  ProgramBuilder program;
  const ValueId x = program.Input("x", rows_);
  const ValueId early = program.Call("lockstep.copy", {Read(x)}, rows_);
  ValueId chain = early;
  for (int i = 0; i < 20; ++i) chain = program.Call("lockstep.copy", {Read(chain)}, rows_);
  const ValueId late = program.Make(rows_);
  program.Call("lockstep.copy", {Read(early), Write(late)});
  program.Output("chain", chain);
  program.Output("late", late);
  const DRef input = Unwrap(session_->Place(Numbers(9), rows_));
  BoundPlan plan = Unwrap(session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", input}}}));
  for (int i = 0; i < 3; ++i) EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("chain")))), Numbers(9));
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("late")))), Numbers(9));
}

TEST_P(PlansTest, AProgramTravelsOnceAndThenAsItsKey) {
  if (GetParam() == ClusterKind::kLocalThreads) {
    GTEST_SKIP() << "its controller cannot be asked from outside";
  }
  const auto sent = [&] {
    EXPECT_OK(session_->SyncAll());
    const ClusterStatus status =
        StatusOnce(SharedCluster(GetParam()), [](const ClusterStatus&) { return true; });
    for (const SessionStatus& session : status.sessions) {
      if (session.session == session_->id()) return session.sent_bytes;
    }
    ADD_FAILURE() << "the session is not there";
    return uint64_t{0};
  };
  ProgramBuilder program;
  ValueId value = program.Input("x", rows_);
  for (int i = 0; i < 100; ++i) value = program.Call("lockstep.copy", {Read(value)}, rows_);
  program.Output("y", value);
  const Program built = Unwrap(program.Build());
  const DRef x = Unwrap(session_->Place(Numbers(4), rows_));
  const PlanRegisters registers = {.inputs = {{"x", x}},
                                   .functions = {{"lockstep.copy", Function("lockstep.copy")}}};
  const auto bytes_of_bind = [&] {
    const uint64_t before = sent();
    BoundPlan plan = Unwrap(session_->Bind(built, registers));
    const uint64_t bytes = sent() - before;
    EXPECT_OK(plan.Execute());
    EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("y")))), Numbers(4));
    return bytes;
  };
  constexpr uint64_t kWhole = 5000;  // a hundred calls take more
  constexpr uint64_t kKey = 2000;    // a key takes less, with what two batches count besides
  EXPECT_GT(bytes_of_bind(), kWhole);
  EXPECT_LT(bytes_of_bind(), kKey);
  EXPECT_OK(session_->Reset());
  EXPECT_GT(bytes_of_bind(), kWhole) << "after a reset it travels again";
  EXPECT_LT(bytes_of_bind(), kKey);
}

// More programs than a session's workers keep, bound by turns: each side forgets the same ones.
TEST_P(PlansTest, WhatTheWorkersHaveForgottenIsSentAgain) {
  const Layout one = Unwrap(
      Layout::Make({1}, DType::kInt64, Unwrap(Mesh::Line({0, 1, 2, 3})), {Placement::Replicate()}));
  std::vector<Program> programs;
  for (int64_t i = 0; i < 70; ++i) {
    ProgramBuilder program;
    program.Output(
        "y", program.Call("lockstep.full", {Pass(Shape({1})), Pass(i), Pass(DType::kInt64)}, one));
    programs.push_back(Unwrap(program.Build()));
  }
  const PlanRegisters registers = {.functions = {{"lockstep.full", Function("lockstep.full")}}};
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < programs.size(); i += round == 1 ? 3 : 1) {
      BoundPlan plan = Unwrap(session_->Bind(programs[i], registers));
      EXPECT_OK(plan.Execute());
      if (i % 10 != 0) continue;
      EXPECT_EQ(Elements<int64_t>(Unwrap(plan.Output("y")), 3)[0], static_cast<int64_t>(i));
    }
  }
  EXPECT_OK(session_->SyncAll());
}

// Numbers(0) on a grid of two by two: columns along "y", the same along "x".
TEST_P(PlansTest, CopiesViewsAndCollectivesDoWhatTheySay) {
  const Mesh grid = Unwrap(Mesh::Make({{"x", 2}, {"y", 2}}, {3, 1, 0, 2}));
  const auto on_grid = [&](const Shape& shape, Placement x, Placement y) {
    return Unwrap(Layout::Make(shape, DType::kInt32, grid, {x, y}));
  };
  const Placement all = Placement::Replicate();
  const Layout columns = on_grid({5, 6}, all, Placement::Shard(1));

  ProgramBuilder program;
  const ValueId x = program.Input("x", columns);
  const ValueId written = program.Input("written", columns);
  const ValueId before = program.Copy(written);
  program.Call("lockstep.copy", {Read(x), Write(written)});
  program.Output("before", before);
  program.Output("twice", program.AllReduce(x, "x", Reduction::kSum));
  program.Output("halves", program.AllReduce(x, "y", Reduction::kMax));
  program.Output("rows", program.AllToAll(x, "y", 0));
  program.Output("whole", program.AllGather(x, "y"));
  program.Output("scattered", program.ReduceScatter(x, "x", 0, Reduction::kAvg));
  program.Output("right", program.Broadcast(x, "y", 1));
  program.Output(
      "sums",
      program.Reshard(program.As(x, on_grid({5, 3}, all, Placement::Partial(Reduction::kSum))),
                      on_grid({5, 3}, all, all)));
  const DRef input = Unwrap(session_->Place(Numbers(0), columns));
  const DRef other = Unwrap(session_->Place(Numbers(100), columns));
  BoundPlan plan = Unwrap(
      session_->Bind(Unwrap(program.Build()), {.inputs = {{"x", input}, {"written", other}}}));

  // [5, columns] of what `of` says of row r and column c.
  const auto tensor = [](int32_t columns, auto&& of) {
    std::vector<int32_t> elements;
    for (int32_t r = 0; r < 5; ++r) {
      for (int32_t c = 0; c < columns; ++c) elements.push_back(of(r, c));
    }
    return HostTensor::Of<int32_t>({5, columns}, elements);
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_OK(plan.Execute());
    const auto output = [&](const char* name) {
      return Unwrap(session_->Collect(Unwrap(plan.Output(name))));
    };
    EXPECT_EQ(output("before"), Numbers(round == 0 ? 100 : 0));
    EXPECT_EQ(output("twice"), tensor(6, [](int r, int c) { return 2 * (6 * r + c); }));
    EXPECT_EQ(output("halves"), tensor(3, [](int r, int c) { return 6 * r + c + 3; }));
    EXPECT_EQ(output("rows"), Numbers(0));
    EXPECT_EQ(output("whole"), Numbers(0));
    EXPECT_EQ(output("scattered"), Numbers(0)) << "the average of replicas";
    EXPECT_EQ(output("right"), tensor(3, [](int r, int c) { return 6 * r + c + 3; }));
    EXPECT_EQ(output("sums"), tensor(3, [](int r, int c) { return 2 * (6 * r + c) + 3; }));
    // Each rank holds what its coordinate says, not only the first of those that hold the same.
    for (const Rank rank : {0, 1, 2, 3}) {
      const Value whole = Unwrap(session_->DebugGet(Unwrap(plan.Output("whole")), rank));
      EXPECT_EQ(*whole.As<HostTensor>(), Numbers(0)) << rank;
    }
  }
}

TEST_P(PlansTest, APlanKeepsItsInputs) {
  BoundPlan plan = Unwrap(
      session_->Bind(Columns(), {.inputs = {{"x", Unwrap(session_->Place(Numbers(7), rows_))}}}));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(plan.Execute());
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(plan.Output("back")))), Numbers(7));
}

}  // namespace
}  // namespace lockstep::testing
