#include "services/worker/execute/plan_graphs.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"
#include "services/worker/execute/plan_agreement.h"

namespace lockstep::worker {
namespace {

using plan::Layout;
using plan::Placement;
using Way = PlanGraphs::Way;

class GraphOfNothing final : public collective::DeviceGraph {
 public:
  size_t held_bytes() const override { return 100; }
};

// Some ranks of one plan, each with inputs of its own.
class PlanGraphsTest : public testing::Test {
 protected:
  static constexpr size_t kRanks = 2;

  // All of them execute with inputs that lie there, and capture what they are to.
  Way Execute(const std::vector<const void*>& inputs, bool may_capture = true) {
    PlanAgreement::Verdict verdict{true, ~0U, ~0U, may_capture};
    for (size_t rank = 0; rank < kRanks; ++rank) {
      PlanAgreement::Ready ready;
      graphs_[rank].Look({inputs[rank]}, &ready);
      verdict.graphs &= ready.graphs;
      verdict.buffers &= ready.buffers;
    }
    const PlanGraphs::Choice choice = graphs_[0].Choose(verdict);
    for (size_t rank = 1; rank < kRanks; ++rank) {
      const PlanGraphs::Choice other = graphs_[rank].Choose(verdict);
      EXPECT_EQ(other.way, choice.way);
      EXPECT_EQ(other.place, choice.place);
    }
    if (choice.way == Way::kCapture) {
      for (PlanGraphs& graphs : graphs_) {
        auto graph = std::make_shared<PlanGraph>();
        graph->graph = std::make_unique<GraphOfNothing>();
        graphs.Put(choice.place, std::move(graph));
      }
    }
    return choice.way;
  }

  std::vector<PlanGraphs> graphs_ = std::vector<PlanGraphs>(kRanks, PlanGraphs(""));
  const char memory_[100] = {};
};

TEST_F(PlanGraphsTest, WhatComesAgainIsCapturedAndThenLaunched) {
  const std::vector<const void*> inputs = {&memory_[0], &memory_[1]};
  EXPECT_EQ(Execute(inputs), Way::kStepByStep);
  EXPECT_EQ(Execute(inputs), Way::kCapture);
  EXPECT_EQ(Execute(inputs), Way::kLaunch);
  EXPECT_EQ(Execute(inputs), Way::kLaunch);
  EXPECT_EQ(graphs_[1].count(), 1u);
  EXPECT_EQ(graphs_[1].held_bytes(), 100u);
  EXPECT_EQ(Execute(inputs, /*may_capture=*/false), Way::kStepByStep);
  EXPECT_EQ(Execute(inputs), Way::kLaunch);
}

TEST_F(PlanGraphsTest, BuffersThatComeByTurnsHaveAGraphEach) {
  const std::vector<std::vector<const void*>> sets = {{&memory_[0], &memory_[1]},
                                                      {&memory_[2], &memory_[3]}};
  for (const Way way : {Way::kStepByStep, Way::kCapture, Way::kLaunch, Way::kLaunch}) {
    for (const auto& set : sets) EXPECT_EQ(Execute(set), way);
  }
}

// A graph that fits on one rank alone is launched on none.
TEST_F(PlanGraphsTest, ItIsNotLaunchedWhereOneRanksInputHasMoved) {
  const std::vector<const void*> inputs = {&memory_[0], &memory_[1]};
  for (int i = 0; i < 3; ++i) (void)Execute(inputs);
  const std::vector<const void*> moved = {&memory_[0], &memory_[9]};
  EXPECT_EQ(Execute(moved), Way::kStepByStep);
  EXPECT_EQ(Execute(moved), Way::kCapture);
  EXPECT_EQ(Execute(moved), Way::kLaunch);
  EXPECT_EQ(Execute(inputs), Way::kLaunch);
}

TEST_F(PlanGraphsTest, WhatNeverComesAgainIsNeverCaptured) {
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(Execute({&memory_[2 * i], &memory_[2 * i + 1]}), Way::kStepByStep);
  }
  // The oldest were forgotten.
  EXPECT_EQ(Execute({&memory_[0], &memory_[1]}), Way::kStepByStep);
  EXPECT_EQ(Execute({&memory_[18], &memory_[19]}), Way::kCapture);
}

class AgreedCollectivesTest : public testing::Test {
 protected:
  // A sum over the ranks, a call, and another sum of what that has made.
  std::vector<AgreedCollective> Agreed(bool may_be_captured) {
    const auto layout = [](Placement placement) {
      return *Layout::Make({4}, DType::kFloat32, *plan::Mesh::Line({0, 1}), {placement});
    };
    const Layout partial = layout(Placement::Partial(Reduction::kSum));
    const Layout whole = layout(Placement::Replicate());
    plan::ProgramBuilder program;
    const plan::ValueId sum = program.Reshard(program.Input("x", partial), whole);
    program.Output("y", program.Reshard(program.Call("f", {plan::Read(sum)}, partial), whole));
    const auto prepared =
        PrepareProgram(plan::Encode(*program.Build()), {0, 2, plan::Topology({0, 0})});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return AgreedCollectivesOf(**prepared, {may_be_captured});
  }
};

TEST_F(AgreedCollectivesTest, RanksDoNotAskEachOtherAgainWhereNothingFailsByItself) {
  const std::vector<AgreedCollective> agreed = Agreed(/*may_be_captured=*/true);
  ASSERT_EQ(agreed.size(), 2u);
  EXPECT_FALSE(agreed[0].asks_again);
  EXPECT_FALSE(agreed[1].asks_again);
}

TEST_F(AgreedCollectivesTest, AfterAFunctionThatMayFailTheyDo) {
  const std::vector<AgreedCollective> agreed = Agreed(/*may_be_captured=*/false);
  ASSERT_EQ(agreed.size(), 2u);
  EXPECT_FALSE(agreed[0].asks_again) << "it comes before the call";
  EXPECT_TRUE(agreed[1].asks_again);
}

}  // namespace
}  // namespace lockstep::worker
