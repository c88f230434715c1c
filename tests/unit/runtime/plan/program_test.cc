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
  return *builder.Build();
}

TEST(ProgramTest, ComesBackFromTheWireAsItWas) {
  const Program program = Everything();
  capnp::MallocMessageBuilder message;
  WriteProgram(message.initRoot<wire::Program>(), program);
  const auto reader = message.getRoot<wire::Program>().asReader();
  EXPECT_EQ(reader.getLayouts().size(), 2u) << "each once";
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
              HasSubstr("a value has layout 9, and there are 2"));
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
