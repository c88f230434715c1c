// Programs: what is refused, how they travel, what lowering and expanding makes of them.
#include "runtime/plan/program.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/memory.h"
#include "runtime/plan/program_codec.h"
#include "runtime/plan/program_lowering.h"
#include "runtime/plan/program_steps.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Layout LayoutOn(const Mesh& mesh, Placement placement, const Shape& shape = {64, 64},
                DType dtype = DType::kFloat32) {
  return *Layout::Make(shape, dtype, mesh, {placement});
}
Mesh LineOf(std::vector<Rank> ranks) { return *Mesh::Line(std::move(ranks)); }

const Layout kRows = LayoutOn(LineOf({0, 1}), Placement::Shard(0));
const Layout kColumns = LayoutOn(LineOf({0, 1}), Placement::Shard(1));
const Layout kWhole = LayoutOn(LineOf({0, 1}), Placement::Replicate());
const Layout kOthers = LayoutOn(LineOf({2, 3}), Placement::Shard(0));

LoweredProgram Lower(const ProgramBuilder& builder) {
  const StatusOr<Program> program = builder.Build();
  EXPECT_TRUE(program.ok()) << program.status();
  return *LowerProgram(std::make_shared<const Program>(*program), Topology(), CostModel());
}

std::string Error(const ProgramBuilder& builder) { return Message(builder.Build().status()); }

TEST(ProgramTest, ErrorsNameTheLine) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId unwritten = builder.Make(kRows);
  builder.Call("f", {Read(x), Read(unwritten)});
  const std::string line = "program_test.cc:" + std::to_string(__LINE__ - 1);
  EXPECT_EQ(Error(builder),
            line + ": f: argument 2: value 1 is read before anything was written to it");
}

TEST(ProgramTest, WhatCannotBeIsRefused) {
  {
    ProgramBuilder builder;
    builder.Call("f", {Read(builder.Input("x", kRows)), Read(builder.Input("y", kOthers))});
    EXPECT_THAT(Error(builder), HasSubstr("its tensors are held by different ranks: ranks 0, 1, "
                                          "and ranks 2, 3; reshard one of them first"));
  }
  {
    ProgramBuilder builder;
    builder.Call("f", {Pass(int64_t{1})});
    EXPECT_THAT(Error(builder), HasSubstr("a call without tensors"));
  }
  {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    builder.Call("f", {Read(x), Update(x)});
    EXPECT_THAT(Error(builder), HasSubstr("value 0 is written, and is another argument, too"));
  }
  {
    ProgramBuilder builder;
    builder.Output("x", builder.Input("x", kRows));
    EXPECT_THAT(Error(builder), HasSubstr("output \"x\" is an input"));
  }
  {
    ProgramBuilder builder;
    builder.Input("x", kRows);
    builder.Input("x", kRows);
    EXPECT_THAT(Error(builder), HasSubstr("two inputs of a program are called \"x\""));
  }
  {
    ProgramBuilder builder;
    const ValueId y = builder.Call("f", {Read(builder.Input("x", kRows))}, kRows);
    builder.Output("y", y);
    builder.Output("z", y);
    EXPECT_THAT(Error(builder), HasSubstr("one value is named as output twice; the first name is"));
  }
  {
    ProgramBuilder builder;
    builder.Reshard(builder.Input("x", kRows),
                    LayoutOn(LineOf({0, 1}), Placement::Partial(Reduction::kAvg)));
    EXPECT_THAT(Error(builder), HasSubstr("partial values of an average"));
  }
  {
    ProgramBuilder builder;
    builder.Reshard(ValueId{7}, kRows);
    EXPECT_THAT(Error(builder), HasSubstr("there is no value 7 in this program"));
  }
}

// Of every kind of argument and operation.
Program Everything() {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId scratch = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(scratch), Pass(true), Pass(int64_t{-7}), Pass(0.5),
                     Pass(std::string("text")), Pass(Shape({2, 3})), Pass(DType::kInt8)});
  const ValueId y = builder.Call("g", {Update(scratch)}, kRows);
  builder.Output("y", builder.Reshard(y, kOthers));
  builder.Output("copy", builder.Copy(y));
  builder.Output("view", builder.As(y, LayoutOn(LineOf({0, 1}), Placement::Shard(1), {32, 128})));
  builder.Output("reduced", builder.AllReduce(y, "x", Reduction::kMax));
  builder.Output("scattered", builder.ReduceScatter(y, "x", 1, Reduction::kAvg));
  builder.Output("gathered", builder.AllGather(y, "x"));
  builder.Output("exchanged", builder.AllToAll(y, "x", 1));
  builder.Output("sent", builder.Broadcast(y, "x", 1));
  return *builder.Build();
}

TEST(ProgramTest, ComesBackFromTheWireAsItWas) {
  const Program program = Everything();
  capnp::MallocMessageBuilder message;
  WriteProgram(message.initRoot<wire::Program>(), program);
  const auto reader = message.getRoot<wire::Program>().asReader();
  EXPECT_EQ(reader.getLayouts().size(), 7u) << "each once";
  const StatusOr<Program> read = ReadProgram(reader, 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, program);
  EXPECT_THAT(Message(ReadProgram(reader, 3).status()), HasSubstr("the mesh names rank 3"));
}

TEST(ProgramTest, HostileMessagesAreRefused) {
  const auto error = [](auto&& change) {
    capnp::MallocMessageBuilder message;
    auto builder = message.initRoot<wire::Program>();
    WriteProgram(builder, Everything());
    change(builder);
    return Message(ReadProgram(builder.asReader(), 4).status());
  };
  EXPECT_THAT(error([](auto program) { program.setVersion(77); }),
              HasSubstr("the program has the format 77"));
  EXPECT_THAT(error([](auto program) { program.getValues()[0].setLayout(9); }),
              HasSubstr("a value has layout 9, and there are 7"));
  EXPECT_THAT(error([](auto program) { program.getInputs().set(0, 4'000'000'000); }),
              HasSubstr("there is no value"));
  EXPECT_THAT(error([](auto program) { program.getOutputs().set(0, 1); }), HasSubstr("no name"));
  EXPECT_THAT(error([](auto program) { program.getOps()[0].getCall().setFunction(2); }),
              HasSubstr("there is no function 2"));
  EXPECT_THAT(error([](auto program) { program.getOps()[1].getCall().setResult(0); }),
              HasSubstr("value 0 is the result of two operations"));
  EXPECT_THAT(
      error([](auto program) { program.getOps()[0].getCall().getArguments()[0].setRead(-5); }),
      HasSubstr("there is no value -5"));
  EXPECT_THAT(error([](auto program) { program.getOps()[2].getReshard().setTarget(0); }),
              HasSubstr("value 0 is the result of two operations"));
  EXPECT_THAT(error([](auto program) { program.getOps()[3].getView().setSource(1 << 30); }),
              HasSubstr("there is no value 1073741824"));
  EXPECT_THAT(error([](auto program) { program.getOps()[4].getView().setTarget(2); }),
              HasSubstr("value 2 is the result of two operations"));
}

TEST(ProgramTest, HostileCollectivesAreRefused) {
  // Of the allreduce.
  const auto error = [](auto&& change) {
    capnp::MallocMessageBuilder message;
    auto builder = message.initRoot<wire::Program>();
    WriteProgram(builder, Everything());
    change(builder.getOps()[5].getCollective());
    return Message(ReadProgram(builder.asReader(), 4).status());
  };
  EXPECT_EQ(error([](auto) {}), "");
  EXPECT_THAT(error([](auto op) { op.setKind(255); }), HasSubstr("unknown kind 255"));
  EXPECT_THAT(error([](auto op) { op.setKind(static_cast<uint8_t>(OperationKind::kBarrier)); }),
              HasSubstr("a program has no such operation"));
  EXPECT_THAT(error([](auto op) { op.setReduction(5); }), HasSubstr("unknown reduction 5"));
  EXPECT_THAT(error([](auto op) { op.setAxis("tp"); }), HasSubstr("has no such axis"));
  EXPECT_THAT(error([](auto op) { op.setSource(-3); }), HasSubstr("there is no value -3"));
  EXPECT_THAT(error([](auto op) { op.setTarget(0); }), HasSubstr("the result of two operations"));
  EXPECT_THAT(error([](auto op) {
                op.setKind(static_cast<uint8_t>(OperationKind::kBroadcast));
                op.setRoot(-1);
              }),
              HasSubstr("the coordinates 0 to 1, and the root is -1"));
  EXPECT_THAT(error([](auto op) {
                op.setKind(static_cast<uint8_t>(OperationKind::kAllToAll));
                op.setDim(1 << 30);
              }),
              HasSubstr("shards dimension 1073741824"));
  EXPECT_THAT(error([](auto op) { op.setKind(static_cast<uint8_t>(OperationKind::kAllGather)); }),
              AllOf(HasSubstr("allgather along x: it makes float32[64, 64] on"),
                    HasSubstr("and its result is float32[32, 64] on")));
}

TEST(ProgramTest, AReshardToTheSameLayoutIsNothing) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId same = builder.Reshard(x, kRows);
  builder.Call("f", {Read(same)});
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, SizeIs(1));
  EXPECT_EQ(lowered.lies_in[static_cast<size_t>(same)], x);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("nothing is done")));
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  ASSERT_THAT(steps.steps, SizeIs(1));
  EXPECT_THAT(std::get<CallStep>(steps.steps[0].what).argument_buffers,
              ElementsAre(static_cast<int>(x)));
  EXPECT_EQ(steps.arena_bytes, 0);
}

TEST(ProgramTest, WhatIsWrittenLaterIsCopied) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId before = builder.Reshard(x, kRows);
  builder.Call("f", {Update(x)});
  builder.Call("f", {Read(before)});
  EXPECT_THAT(Lower(builder).ops, SizeIs(3)) << "the copy has the old values";
}

TEST(ProgramTest, ACopyIsMadeWhereItCouldBeTold) {
  // How many copies rank 0 makes, if calls write to these before and after the copy.
  const auto copies = [](auto&& before, auto&& after) {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    before(builder, x);
    const ValueId copy = builder.Copy(x);
    after(builder, x, copy);
    builder.Call("read", {Read(copy), Read(x)});
    const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
    return std::count_if(steps.steps.begin(), steps.steps.end(), [](const auto& step) {
      return std::holds_alternative<CopyStep>(step.what);
    });
  };
  using Builder = ProgramBuilder;
  const auto nothing = [](auto&&...) {};
  const auto write_x = [](Builder& builder, ValueId x, auto...) { builder.Call("f", {Update(x)}); };
  EXPECT_EQ(copies(nothing, nothing), 0);
  EXPECT_EQ(copies(write_x, nothing), 0) << "it has what was written";
  EXPECT_EQ(copies(nothing, write_x), 1);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Write(copy)}); }),
            1);
  EXPECT_EQ(
      copies(nothing, [](Builder& builder, ValueId, ValueId copy) { builder.Output("y", copy); }),
      1);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Read(builder.Copy(copy))}); }),
            0);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Update(builder.Copy(copy))}); }),
            1)
      << "of the copy";
}

TEST(ProgramTest, AViewIsTheSameTilesOnSomeOfTheRanks) {
  const Layout one = *Layout::Make({32, 64}, DType::kFloat32, LineOf({1}), {Placement::Shard(1)});
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId local = builder.As(x, one);
  builder.Call("f", {Update(builder.Copy(local))});
  builder.Output(
      "y", builder.Reshard(local, LayoutOn(LineOf({0, 1}), Placement::Shard(0), Shape({32, 64}))));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_EQ(lowered.lies_in[static_cast<size_t>(local)], x);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("a view: nothing is done"),
                                         HasSubstr("begins before the call")));
  // The reshard begins with what the view is, not with what it lies in.
  ASSERT_THAT(lowered.ops, SizeIs(3));
  EXPECT_EQ(lowered.ops[1].reshard->from.shape(), Shape({32, 64}));
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  EXPECT_EQ(std::get<CopyStep>(steps.steps.front().what).count, 32 * 64);
  const ProgramSteps others = ExpandProgram(lowered, 0);
  EXPECT_TRUE(std::holds_alternative<CollectiveStep>(others.steps.front().what)) << "no call";
}

TEST(ProgramTest, AViewKeepsEachTile) {
  const auto error = [](const Layout& from, const Layout& to) {
    ProgramBuilder builder;
    builder.As(builder.Input("x", from), to);
    return Error(builder);
  };
  EXPECT_EQ(error(kRows, LayoutOn(LineOf({1, 0}), Placement::Partial(Reduction::kSum), {32, 64})),
            "");
  EXPECT_THAT(error(kRows, kColumns),
              AllOf(HasSubstr("program_test.cc:"),
                    HasSubstr("a view keeps each rank's tile: rank 0 holds float32[32, 64] of "),
                    HasSubstr("and it would hold float32[64, 32] of ")));
  EXPECT_THAT(error(kRows, LayoutOn(LineOf({0, 1}), Placement::Shard(0), {64, 64}, DType::kInt32)),
              HasSubstr("it would hold int32[32, 64] of "));
  EXPECT_THAT(error(kRows, LayoutOn(LineOf({1, 2}), Placement::Shard(0))),
              AllOf(HasSubstr("rank 2 of "), HasSubstr(" holds nothing of ")));
}

TEST(ProgramTest, WhatIsTakenForAnotherIsNotMergedWithWhatItWas) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId whole = builder.Reshard(x, kWhole);
  const ValueId stacked =
      builder.As(whole, LayoutOn(LineOf({0, 1}), Placement::Shard(0), {128, 64}));
  builder.Output(
      "y", builder.Reshard(stacked, LayoutOn(LineOf({0, 1}), Placement::Shard(1), {128, 64})));
  EXPECT_THAT(Lower(builder).ops, SizeIs(2));
}

TEST(ProgramTest, CollectivesAreDoneAsTheyAreSaid) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  // Together they are a reshard from rows to columns, for which there is a better way.
  builder.Output("y", builder.ReduceScatter(builder.AllGather(x, "x"), "x", 1, Reduction::kAvg));
  // A reshard after a collective, and before one.
  builder.Output("z", builder.Reshard(builder.AllGather(x, "x"), kColumns));
  builder.Output("w", builder.AllToAll(builder.Reshard(x, kColumns), "x", 0));
  builder.AllGather(x, "x");
  const LoweredProgram lowered = Lower(builder);
  ASSERT_THAT(lowered.ops, SizeIs(6));
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("nothing reads the result")));
  EXPECT_EQ(lowered.ops[0].reshard, lowered.ops[2].reshard) << "found once";
  std::vector<std::string> kinds;
  for (const ProgramStep& step : ExpandProgram(lowered, 1).steps) {
    const auto* collective = std::get_if<CollectiveStep>(&step.what);
    if (collective != nullptr) kinds.emplace_back(FactsOf(collective->kind).name);
  }
  EXPECT_THAT(kinds,
              ElementsAre("allgather", "reduce-scatter", "allgather", "all-to-all", "all-to-all"));
}

TEST(ProgramTest, WrongCollectivesNameTheLine) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.AllGather(builder.AllGather(x, "x"), "tp");
  const std::string line = "program_test.cc:" + std::to_string(__LINE__ - 1);
  EXPECT_EQ(Error(builder), line + ": allgather along tp: the mesh x=2 {0, 1} has no such axis");
  ProgramBuilder unknown;
  unknown.AllReduce(ValueId{3}, "x", Reduction::kSum);
  EXPECT_THAT(Error(unknown), HasSubstr("there is no value 3 in this program"));
}

TEST(ProgramTest, AnOutputHasABufferOfItsOwn) {
  ProgramBuilder builder;
  builder.Output("y", builder.Reshard(builder.Input("x", kRows), kRows));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, SizeIs(1));
  const ProgramSteps steps = ExpandProgram(lowered, 0);
  EXPECT_EQ(steps.buffers[1].home, StepBuffer::Home::kArena);
  EXPECT_THAT(steps.steps, SizeIs(1)) << "a local copy";
}

TEST(ProgramTest, TwoReshardsInARowBecomeOne) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  // By way of all of it on each rank.
  builder.Output("y", builder.Reshard(builder.Reshard(x, kWhole), kColumns));
  const LoweredProgram lowered = Lower(builder);
  ASSERT_THAT(lowered.ops, SizeIs(1));
  EXPECT_EQ(lowered.ops[0].source, x);
  EXPECT_EQ(lowered.ops[0].reshard->to, kColumns);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("one with the reshard before it, at program_")));
}

TEST(ProgramTest, WhatIsReadBetweenIsMade) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId whole = builder.Reshard(x, kWhole);
  builder.Call("f", {Read(whole)});
  builder.Output("y", builder.Reshard(whole, kColumns));
  EXPECT_THAT(Lower(builder).ops, SizeIs(3));
}

TEST(ProgramTest, WhatNobodyReadsIsNotMade) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.Reshard(builder.Reshard(x, kWhole), kColumns);
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, IsEmpty());
  EXPECT_THAT(lowered.notes, SizeIs(2));
}

TEST(ProgramTest, RanksHaveTheirStepsOnly) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId y = builder.Call("f", {Read(x)}, kRows);
  const ValueId there = builder.Reshard(y, kOthers);
  builder.Output("z", builder.Call("g", {Read(there)}, kOthers));
  const LoweredProgram lowered = Lower(builder);
  const auto calls = [&](Rank rank) {
    std::vector<size_t> ops;
    for (const ProgramStep& step : ExpandProgram(lowered, rank).steps) {
      if (std::holds_alternative<CallStep>(step.what)) ops.push_back(step.op);
    }
    return ops;
  };
  EXPECT_THAT(calls(0), ElementsAre(0));
  EXPECT_THAT(calls(3), ElementsAre(2));
  EXPECT_THAT(ExpandProgram(lowered, 4).steps, IsEmpty());
  // All know all teams, in one order.
  EXPECT_EQ(ExpandProgram(lowered, 0).teams, ExpandProgram(lowered, 4).teams);
  EXPECT_THAT(ExpandProgram(lowered, 0).teams, Not(IsEmpty()));
}

TEST(ProgramTest, LoweringIsBoundedAndCanBeGivenUp) {
  ProgramBuilder builder;
  const auto layouts_of = [](int64_t rows) {
    return std::pair(LayoutOn(LineOf({0, 1}), Placement::Shard(0), {rows, 4}),
                     LayoutOn(LineOf({0, 1}), Placement::Replicate(), {rows, 4}));
  };
  for (int64_t rows = 1; rows <= static_cast<int64_t>(kMaxDifferentReshards) + 1; ++rows) {
    const auto [from, to] = layouts_of(rows);
    const std::string number = std::to_string(rows);
    builder.Output("y" + number, builder.Reshard(builder.Input("x" + number, from), to));
  }
  const auto program = std::make_shared<const Program>(*builder.Build());
  const Status status = LowerProgram(program, Topology(), CostModel()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("at most 256 different pairs of layouts"));
  EXPECT_EQ(LowerProgram(program, Topology(), CostModel(), [] { return true; }).status().code(),
            StatusCode::kAborted);
}

// The work is counted, and not timed: all ranks refuse the same programs.
TEST(ProgramTest, ProgramsWhoseLoweringTakesTooLongAreRefused) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.Output("columns", builder.Reshard(x, kColumns));
  builder.Output("whole", builder.Reshard(x, kWhole));
  builder.Output("other", builder.Reshard(x, kColumns));
  const auto program = std::make_shared<const Program>(*builder.Build());
  int64_t effort = 0;
  for (const Layout& to : {kColumns, kWhole}) {
    const int64_t of_pair = LowerReshard(kRows, to, Topology(), CostModel())->effort;
    EXPECT_GT(of_pair, 0);
    effort += of_pair;
  }
  const auto lower = [&](int64_t most) {
    return LowerProgram(program, Topology(), CostModel(), nullptr, most).status();
  };
  EXPECT_EQ(lower(effort), OkStatus()) << "a pair that comes again takes none";
  const Status status = lower(effort - 1);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("program_test.cc:"), HasSubstr("2 different pairs of layouts took "),
                    HasSubstr("make several programs of it")));
}

TEST(ProgramTest, ADeepModelOnAThousandRanksIsLowered) {
  std::vector<Rank> ranks(1024);
  std::vector<int> nodes;
  for (Rank rank = 0; rank < 1024; ++rank) {
    ranks[static_cast<size_t>(rank)] = rank;
    nodes.push_back(rank / 8);
  }
  const Mesh mesh = *Mesh::Make({{"data", 128}, {"model", 8}}, ranks);
  const auto on = [&](Placement data, Placement model) {
    return *Layout::Make({4096, 4096}, DType::kBFloat16, mesh, {data, model});
  };
  const Layout split = on(Placement::Shard(0), Placement::Shard(1));
  const Layout whole = on(Placement::Shard(0), Placement::Replicate());
  const Layout summand = on(Placement::Shard(0), Placement::Partial(Reduction::kSum));
  ProgramBuilder builder;
  ValueId x = builder.Input("x", split);
  for (int layer = 0; layer < 40; ++layer) {
    const ValueId attended = builder.Call("attention", {Read(builder.Reshard(x, whole))}, summand);
    const ValueId normed = builder.Reshard(attended, split);
    const ValueId mixed = builder.Call("mlp", {Read(builder.Reshard(normed, whole))}, summand);
    x = builder.Reshard(mixed, split);
  }
  builder.Output("y", x);
  EXPECT_EQ(LowerProgram(std::make_shared<const Program>(*builder.Build()), Topology(nodes),
                         CostModel(), nullptr, kMaxLoweringEffort / 20)
                .status(),
            OkStatus());
}

TEST(ProgramTest, MemoryIsUsedAgain) {
  ProgramBuilder builder;
  ValueId x = builder.Input("x", kRows);
  constexpr int kLinks = 12;
  for (int i = 0; i < kLinks; ++i) {
    const ValueId next = builder.Make(kRows);
    builder.Call("f", {Read(x), Write(next)});
    x = next;
  }
  builder.Output("y", x);
  const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
  const int64_t tile = kRows.largest_tile().NumElements() * 4;
  EXPECT_EQ(steps.arena_bytes, 2 * tile) << "one is read while the next is written";
  EXPECT_EQ(steps.arena_bytes_bound, 2 * tile);
  EXPECT_EQ(steps.arena_bytes_apart, kLinks * tile);
}

TEST(ProgramTest, AnOutputIsKeptToTheEnd) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId kept = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(kept)});
  builder.Output("kept", kept);
  const ValueId other = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(other)});
  builder.Call("f", {Update(other)});
  const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
  EXPECT_NE(steps.buffers[1].arena_offset, steps.buffers[2].arena_offset);
}

}  // namespace
}  // namespace lockstep::plan
