#include "runtime/plan/steps/check_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "runtime/plan/steps/program_steps.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::HasSubstr;
using testing::kColumns;
using testing::kRows;
using testing::kWhole;

// Steps of all kinds on rank 1 of two, of which some are spoilt.
class CheckStepsTest : public ::testing::Test {
 protected:
  CheckStepsTest() {
    ProgramBuilder program;
    const ValueId x = program.Input("x", kRows);
    const ValueId y = program.Call("negate", {Read(x), Pass(int64_t{3})}, kRows);
    const ValueId columns = program.Reshard(y, kColumns);
    const ValueId z = program.Make(kColumns);
    program.Call("copy", {Read(columns), Write(z)});
    program.Output("whole", program.Reshard(z, kWhole));
    const Layout partial =
        testing::LayoutOn(testing::LineOf({0, 1}), Placement::Partial(Reduction::kSum));
    program.Output("partial", program.Reshard(x, partial));
    program.Output("sum", program.AllReduce(program.As(x, x_partial_), "x", Reduction::kSum));
    lowered_ = testing::Lower(program);
    steps_ = ExpandProgram(lowered_, 1, {.lanes_overlap = true});
  }

  template <typename Kind>
  Kind& First() {
    for (ProgramStep& step : steps_.steps) {
      if (auto* const found = std::get_if<Kind>(&step.what)) return *found;
    }
    ADD_FAILURE() << "there is no such step";
    std::abort();
  }
  CollectiveStep& First(OperationKind kind) {
    for (ProgramStep& step : steps_.steps) {
      auto* const found = std::get_if<CollectiveStep>(&step.what);
      if (found != nullptr && found->kind == kind) return *found;
    }
    ADD_FAILURE() << "there is no such collective";
    std::abort();
  }
  StepBuffer& At(int buffer) { return steps_.buffers[static_cast<size_t>(buffer)]; }

  std::string Complaint() const {
    return std::string(Message(CheckSteps(*lowered_.program, steps_, 1)));
  }
  // Of the steps when they were spoilt so; they are as before afterwards.
  template <typename Spoil>
  std::string After(Spoil spoil) {
    const ProgramSteps before = steps_;
    spoil();
    std::string complaint = Complaint();
    steps_ = before;
    return complaint;
  }

  const Layout x_partial_ =
      testing::LayoutOn(testing::LineOf({0, 1}), Placement::Partial(Reduction::kSum), {32, 64});
  LoweredProgram lowered_;
  ProgramSteps steps_;
};

TEST_F(CheckStepsTest, WhatIsExpandedIsRight) { EXPECT_EQ(Complaint(), ""); }

TEST_F(CheckStepsTest, BuffersLieInTheArena) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() - 63;
  for (StepBuffer& buffer : steps_.buffers) {
    if (buffer.home != StepBuffer::Home::kArena) continue;
    for (const int64_t offset : {int64_t{-64}, steps_.arena_bytes, kFar, int64_t{2}}) {
      EXPECT_THAT(After([&] { buffer.arena_offset = offset; }), HasSubstr("outside its memory"));
    }
    EXPECT_NE(After([&] { buffer.extents = Shape({kFar, kFar}); }), "");
  }
}

TEST_F(CheckStepsTest, OnlyInputsStandForInputs) {
  for (StepBuffer& buffer : steps_.buffers) {
    if (buffer.home != StepBuffer::Home::kArena) continue;
    EXPECT_THAT(After([&] { buffer.home = StepBuffer::Home::kInput; }), HasSubstr("no input's"));
  }
}

TEST_F(CheckStepsTest, PartsLieInsideTheirBuffers) {
  int whole = -1;
  for (int i = 0; i < static_cast<int>(steps_.buffers.size()); ++i) {
    if (At(i).home == StepBuffer::Home::kArena && At(i).size_bytes() > 0) whole = i;
  }
  ASSERT_GE(whole, 0);
  steps_.buffers.push_back(At(whole));
  const auto part = static_cast<int>(steps_.buffers.size()) - 1;
  At(part).home = StepBuffer::Home::kInside;
  At(part).inside = whole;
  EXPECT_EQ(Complaint(), "");
  constexpr const char* kOutside = "outside the one that it is a part of";
  for (const int64_t offset : {int64_t{-1}, int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(After([&] { At(part).offset = offset; }), HasSubstr(kOutside));
  }
  for (const int inside : {-1, 1000, part}) {
    EXPECT_THAT(After([&] { At(part).inside = inside; }), HasSubstr(kOutside));
  }
  EXPECT_THAT(After([&] { At(part).dtype = DType::kUInt8; }), HasSubstr(kOutside));
}

// What executes them looks up the buffers all the same.
TEST_F(CheckStepsTest, EmptyStepsNameBuffersThatAreThere) {
  EXPECT_THAT(After([&] { First<CopyStep>().count = 0, First<CopyStep>().to_buffer = 1000; }),
              HasSubstr("not there"));
  EXPECT_THAT(After([&] { First<FillStep>().to = {1000, 0, 0}; }), HasSubstr("not there"));
  EXPECT_THAT(After([&] { steps_.steps[0].together = {1000}; }), HasSubstr("no operation"));
  EXPECT_THAT(After([&] { steps_.arena_bytes = -1; }), HasSubstr("-1 bytes"));
}

TEST_F(CheckStepsTest, CopiesStayWithinTheirBuffers) {
  auto& copy = First<CopyStep>();
  EXPECT_THAT(After([&] { ++copy.from.offset; }), HasSubstr("reads outside its buffer"));
  EXPECT_THAT(After([&] { copy.to.offset = -1; }), HasSubstr("writes outside its buffer"));
  EXPECT_THAT(After([&] { copy.to_buffer = 1000; }), HasSubstr("writes outside its buffer"));
  EXPECT_THAT(After([&] { copy.from_buffer = -1; }), HasSubstr("reads outside its buffer"));
  EXPECT_THAT(After([&] { copy.from.strides[0] = int64_t{1} << 62; }), HasSubstr("reads outside"));
  EXPECT_THAT(After([&] { copy.from.strides[0] = -1; }), HasSubstr("reads outside"));
  EXPECT_THAT(After([&] { copy.to.strides = Shape({1}); }), HasSubstr("writes outside"));
  EXPECT_THAT(After([&] { copy.count += 1; }), HasSubstr("its box does not have"));
  EXPECT_THAT(After([&] { copy.first = -1; }), HasSubstr("its box does not have"));
  EXPECT_THAT(After([&] { copy.count = -1; }), HasSubstr("its box does not have"));
  EXPECT_THAT(After([&] { At(copy.to_buffer).home = StepBuffer::Home::kNowhere; }),
              HasSubstr("writes outside"));
  EXPECT_THAT(After([&] { At(copy.to_buffer).dtype = DType::kInt32; }), HasSubstr("two dtypes"));
}

TEST_F(CheckStepsTest, FillsStayWithinTheirBuffers) {
  auto& fill = First<FillStep>();
  EXPECT_THAT(After([&] { ++fill.to.offset; }), HasSubstr("writes outside its buffer"));
  EXPECT_THAT(After([&] { fill.to.count = -1; }), HasSubstr("writes outside its buffer"));
  EXPECT_THAT(After([&] { fill.to.count = std::numeric_limits<int64_t>::max(); }),
              HasSubstr("writes outside its buffer"));
}

TEST_F(CheckStepsTest, CollectivesHaveTheCountsOfTheirBuffersAndTeams) {
  for (const OperationKind kind :
       {OperationKind::kAllGather, OperationKind::kAllToAll, OperationKind::kAllReduce}) {
    CollectiveStep& step = First(kind);
    EXPECT_THAT(After([&] { step.send.offset = int64_t{1} << 60; }), HasSubstr("reads outside"));
    EXPECT_THAT(After([&] { step.recv.offset = -1; }), HasSubstr("writes outside"));
    EXPECT_THAT(After([&] { --step.recv.count; }), HasSubstr("counts"));
    EXPECT_THAT(After([&] { step.team = {1}; }), HasSubstr("team"));
    EXPECT_THAT(After([&] { step.number = 1000; }), HasSubstr("team"));
    EXPECT_THAT(After([&] { step.number = -1; }), HasSubstr("team"));
    EXPECT_THAT(After([&] { step.kind = OperationKind::kBarrier; }), HasSubstr("counts"));
    if (kind == OperationKind::kAllReduce) continue;
    EXPECT_THAT(After([&] { step.counts.pop_back(); }), HasSubstr("counts"));
    EXPECT_THAT(After([&] {
                  step.counts[0] -= 1 << 30;
                  step.counts[1] += 1 << 30;
                }),
                HasSubstr("counts"));
  }
  CollectiveStep& exchange = First(OperationKind::kAllToAll);
  EXPECT_THAT(After([&] { exchange.recv_counts.clear(); }), HasSubstr("counts"));
}

TEST_F(CheckStepsTest, CallsPassWhatIsThere) {
  auto& call = First<CallStep>();
  EXPECT_THAT(After([&] { call.argument_buffers.pop_back(); }), HasSubstr("of its operation"));
  EXPECT_THAT(After([&] { call.argument_buffers[0] = 1000; }), HasSubstr("not there"));
  EXPECT_THAT(After([&] { call.argument_buffers[1] = 0; }), HasSubstr("not there"));
  EXPECT_THAT(After([&] { call.argument_buffers[0] = call.result_buffer; }),
              HasSubstr("not there"));
  EXPECT_THAT(After([&] { call.result_buffer = -1; }), HasSubstr("of its operation"));
  EXPECT_THAT(After([&] { call.result_buffer = call.argument_buffers[0]; }), HasSubstr("no place"));
  EXPECT_THAT(After([&] { call.op = 1; }), HasSubstr("of its operation"));
  EXPECT_THAT(After([&] { call.op = 1000; }), HasSubstr("no operation"));
  EXPECT_THAT(After([&] { steps_.steps[0].op = 1000; }), HasSubstr("no operation"));
  // It would be read when it is gone.
  EXPECT_NE(After([&] { At(call.result_buffer).last_step = 0; }), "");
}

TEST_F(CheckStepsTest, StepsWaitForEarlierOnesOfTheOtherLane) {
  for (ProgramStep& step : steps_.steps) {
    const auto number = static_cast<int>(&step - steps_.steps.data());
    EXPECT_THAT(After([&] { step.waits_for = number; }), HasSubstr("waits for no earlier"));
    EXPECT_THAT(After([&] { step.waits_for = 1000; }), HasSubstr("waits for no earlier"));
    EXPECT_THAT(After([&] { step.waits_for = -2; }), HasSubstr("waits for no earlier"));
  }
  // Of what a function has returned, nothing is sent before it has.
  EXPECT_NE(After([&] {
              for (ProgramStep& step : steps_.steps) step.waits_for = -1;
            }),
            "");
}

}  // namespace
}  // namespace lockstep::plan
