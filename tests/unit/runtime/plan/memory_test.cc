#include "runtime/plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;

TEST(MemoryTest, BuffersThatDoNotMeetShareTheirPlace) {
  const MemoryPlan plan =
      PlanMemory(std::vector<LiveBuffer>{{100, 0, 1}, {50, 2, 3}, {10, 1, 2}}, 1);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 0, 100));
  EXPECT_EQ(plan.total, 110);
}

TEST(MemoryTest, AStepThatReadsOneAndWritesTheOtherNeedsBoth) {
  EXPECT_EQ(PlanMemory(std::vector<LiveBuffer>{{8, 0, 1}, {8, 1, 2}}, 1).total, 16);
}

TEST(MemoryTest, ASmallBufferGoesIntoAGap) {
  // The first two leave a gap while the third lives, of whose place the fourth takes none.
  const std::vector<LiveBuffer> buffers = {{64, 0, 1}, {32, 0, 3}, {16, 2, 3}, {48, 2, 3}};
  const MemoryPlan plan = PlanMemory(buffers, 1);
  EXPECT_EQ(plan.total, 96);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 64, 48, 0));
}

TEST(MemoryTest, OffsetsAreAligned) {
  const MemoryPlan plan = PlanMemory(std::vector<LiveBuffer>{{65, 0, 0}, {1, 0, 0}, {1, 0, 0}}, 64);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 128, 192));
  EXPECT_EQ(plan.total, 256);
}

TEST(MemoryTest, NothingTakesNothing) {
  EXPECT_EQ(PlanMemory({}, 64).total, 0);
  EXPECT_EQ(PlanMemory(std::vector<LiveBuffer>{{0, 0, 5}}, 64).total, 0);
}

TEST(MemoryTest, RandomBuffersNeverOverlapAndStayCloseToTheBound) {
  std::mt19937 random(11);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint32_t>(end));
  };
  std::vector<double> factors;
  for (int round = 0; round < 300; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = 0; i < 40; ++i) {
      const int first = below(40);
      buffers.push_back({1 + below(1000), first, first + below(6)});
    }
    const MemoryPlan plan = PlanMemory(buffers, 1);
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_LE(plan.offsets[a] + buffers[a].size, plan.total);
      for (size_t b = 0; b < a; ++b) {
        if (!buffers[a].IsWith(buffers[b])) continue;
        EXPECT_TRUE(plan.offsets[a] + buffers[a].size <= plan.offsets[b] ||
                    plan.offsets[b] + buffers[b].size <= plan.offsets[a]);
      }
    }
    const auto bound = static_cast<double>(LivenessBound(buffers, 1));
    EXPECT_GE(static_cast<double>(plan.total), bound);
    factors.push_back(static_cast<double>(plan.total) / bound);
  }
  std::sort(factors.begin(), factors.end());
  EXPECT_LE(factors[factors.size() / 2], 1.1);
  EXPECT_LE(factors.back(), 1.3);
}

}  // namespace
}  // namespace lockstep::plan
