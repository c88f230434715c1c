#include "runtime/plan/steps/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CollectiveStep AllReduceOf(std::vector<Rank> team, int64_t count) {
  return {0,
          OperationKind::kAllReduce,
          std::move(team),
          {0, 0, count},
          {1, 0, count},
          Reduction::kSum,
          {},
          {}};
}

std::string RunAll(const std::map<Rank, std::vector<Step>>& steps) {
  std::map<Rank, SimulatedRank> ranks;
  for (const auto& [rank, list] : steps) {
    ProgramSteps& program = ranks[rank].program;
    const auto home = StepBuffer::Home::kInput;
    program.buffers.assign(2, StepBuffer{home, DType::kFloat32, {4}, 0});
    for (const Step& step : list) {
      std::visit([&](const auto& what) { program.steps.push_back({what, 0}); }, step);
    }
    ranks[rank].Allocate();
  }
  return Message(Simulate(ranks));
}

TEST(SimulatorTest, RanksThatWaitInACircleAreTold) {
  EXPECT_THAT(RunAll({{0, {AllReduceOf({0, 1}, 1), AllReduceOf({0, 2}, 1)}},
                      {1, {AllReduceOf({1, 2}, 1), AllReduceOf({0, 1}, 1)}},
                      {2, {AllReduceOf({0, 2}, 1), AllReduceOf({1, 2}, 1)}}}),
              HasSubstr("rank 0 waits at step 0 for ranks 0, 1, and they never come to it"));
}

TEST(SimulatorTest, WhatLiesOutsideABufferIsRefused) {
  const Shape extents = {3};
  CopyStep copy{0, 1, DenseWindow(extents, 2), DenseWindow(extents, 0), extents, 0, 3};
  EXPECT_THAT(RunAll({{7, {copy}}}), HasSubstr("rank 7, step 0: elements [2, 5) do not lie in"));
  copy = {0, 2, DenseWindow(extents, 0), DenseWindow(extents, 0), extents, 0, 3};
  EXPECT_THAT(RunAll({{7, {copy}}}), HasSubstr("do not lie in buffer 2"));
  EXPECT_THAT(RunAll({{7, {FillStep{{1, -1, 2}, Reduction::kSum}}}}), HasSubstr("[-1, 1)"));
  EXPECT_THAT(RunAll({{0, {AllReduceOf({0}, 5)}}}), HasSubstr("[0, 5)"));
}

TEST(SimulatorTest, RanksThatDisagreeAreTold) {
  CollectiveStep max = AllReduceOf({0, 1}, 1);
  max.op = Reduction::kMax;
  EXPECT_THAT(RunAll({{0, {AllReduceOf({0, 1}, 1)}}, {1, {max}}}), HasSubstr("disagree"));
  EXPECT_THAT(RunAll({{0, {AllReduceOf({0, 1}, 1)}}, {1, {AllReduceOf({0, 1}, 2)}}}),
              HasSubstr("counts do not fit"));
  EXPECT_THAT(RunAll({{0, {AllReduceOf({1}, 1)}}}), HasSubstr("not in the team"));
}

TEST(CopyStepTest, RunsAreAsLongAsTheyCanBe) {
  const auto runs = [](const CopyStep& copy) {
    std::vector<std::string> all;
    ForEachRun(copy, [&](int64_t from, int64_t to, int64_t count) {
      all.push_back(std::to_string(from) + ">" + std::to_string(to) + "x" + std::to_string(count));
    });
    return all;
  };
  // Rows 1 and 2, columns 2 to 4, of a 4 by 6 tile.
  const Shape extents = {2, 3};
  const Window part = WindowOf({{1, 2}, extents}, {{0, 0}, {4, 6}});
  const Window dense = DenseWindow(extents, 0);
  EXPECT_THAT(runs({0, 1, part, dense, extents, 0, 6}), ElementsAre("8>0x3", "14>3x3"));
  EXPECT_THAT(runs({0, 1, part, dense, extents, 2, 3}), ElementsAre("10>2x1", "14>3x2"));
  EXPECT_THAT(runs({0, 1, dense, dense, extents, 1, 4}), ElementsAre("1>1x4"));
  EXPECT_THAT(runs({0, 1, dense, dense, extents, 0, 0}), ElementsAre());
  EXPECT_THAT(runs({0, 1, DenseWindow({}, 3), DenseWindow({}, 5), {}, 0, 1}), ElementsAre("3>5x1"));
}

}  // namespace
}  // namespace lockstep::plan
