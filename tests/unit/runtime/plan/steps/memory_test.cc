#include "runtime/plan/steps/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "runtime/plan/steps/live_index.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST(MemoryTest, BuffersThatDoNotMeetShareTheirPlace) {
  const MemoryPlan plan = PlanMemory(
      std::vector<LiveBuffer>{LiveBuffer::During(100, 0, 1), LiveBuffer::During(50, 2, 3),
                              LiveBuffer::During(10, 1, 2)},
      1);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 0, 100));
  EXPECT_EQ(plan.total, 110);
}

TEST(MemoryTest, AStepThatReadsOneAndWritesTheOtherNeedsBoth) {
  EXPECT_EQ(
      PlanMemory(std::vector<LiveBuffer>{LiveBuffer::During(8, 0, 1), LiveBuffer::During(8, 1, 2)},
                 1)
          .total,
      16);
}

TEST(MemoryTest, ASmallBufferGoesIntoAGap) {
  // The first two leave a gap while the third lives, of whose place the fourth takes none.
  const std::vector<LiveBuffer> buffers = {
      LiveBuffer::During(64, 0, 1), LiveBuffer::During(32, 0, 3), LiveBuffer::During(16, 2, 3),
      LiveBuffer::During(48, 2, 3)};
  const MemoryPlan plan = PlanMemory(buffers, 1);
  EXPECT_EQ(plan.total, 96);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 64, 48, 0));
}

TEST(MemoryTest, OffsetsAreAligned) {
  const MemoryPlan plan =
      PlanMemory(std::vector<LiveBuffer>{LiveBuffer::During(65, 0, 0), LiveBuffer::During(1, 0, 0),
                                         LiveBuffer::During(1, 0, 0)},
                 64);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 128, 192));
  EXPECT_EQ(plan.total, 256);
}

// Steps 0 and 2 are of one lane, 1 and 3 of the other, which waits with step 3 for step 2.
TEST(MemoryTest, WhatIsUsedAtTheSameTimeHasMemoryOfItsOwn) {
  LiveBuffer first = LiveBuffer::Unused(8);
  first.UseAt(0, 0, 2);
  LiveBuffer beside = LiveBuffer::Unused(8);
  beside.UseAt(1, 1, 2);
  LiveBuffer second = LiveBuffer::Unused(8);
  second.UseAt(2, 0, 2);
  LiveBuffer after = LiveBuffer::Unused(8);
  after.UseAt(3, 1, 3);
  EXPECT_TRUE(first.IsWith(beside));
  EXPECT_FALSE(first.IsWith(second)) << "one lane does one after the other";
  EXPECT_TRUE(beside.IsWith(second));
  EXPECT_FALSE(first.IsWith(after));
  EXPECT_FALSE(beside.IsWith(after));
  EXPECT_FALSE(second.IsWith(after)) << "it is waited for";
  EXPECT_EQ(PlanMemory({{first, beside, second, after}}, 1).total, 16);
}

TEST(MemoryTest, NothingTakesNothing) {
  EXPECT_EQ(PlanMemory({}, 64).total, 0);
  EXPECT_EQ(PlanMemory(std::vector<LiveBuffer>{LiveBuffer::During(0, 0, 5)}, 64).total, 0);
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
      buffers.push_back(LiveBuffer::During(1 + below(1000), first, first + below(6)));
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

// Of two lanes, each of which waits for the other now and then.
std::vector<LiveBuffer> RandomBuffersOfTwoLanes(std::mt19937& random, int count) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint32_t>(end));
  };
  std::vector<LiveBuffer> buffers;
  for (int i = 0; i < count; ++i) {
    LiveBuffer buffer = LiveBuffer::Unused(1 + below(1000));
    int step = below(60);
    for (int uses = 1 + below(3); uses > 0; --uses) {
      buffer.UseAt(step, static_cast<size_t>(below(2)), step + below(8));
      step += 1 + below(4);
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

TEST(MemoryTest, TheIndexFindsWhatIsLiveAtTheSameTime) {
  std::mt19937 random(13);
  for (int round = 0; round < 20; ++round) {
    const std::vector<LiveBuffer> buffers = RandomBuffersOfTwoLanes(random, 50);
    LiveIndex index(buffers);
    for (size_t one = 0; one < buffers.size(); ++one) {
      std::vector<uint32_t> expected;
      for (size_t other = 0; other < one; ++other) {
        if (buffers[one].IsWith(buffers[other])) expected.push_back(static_cast<uint32_t>(other));
      }
      std::vector<uint32_t> found;
      EXPECT_TRUE(index.FindWith(one, expected.size(), &found));
      EXPECT_THAT(found, UnorderedElementsAreArray(expected));
      if (!expected.empty()) {
        EXPECT_FALSE(index.FindWith(one, expected.size() - 1, &found));
      }
      index.Add(one);
    }
  }
}

TEST(MemoryTest, BuffersThatAreLiveShortlyAreNotComparedWithAllOthers) {
  std::vector<LiveBuffer> buffers;
  for (int i = 0; i < 20'000; ++i) buffers.push_back(LiveBuffer::During(64 + i % 7, i, i + 3));
  int questions = 0;
  const std::optional<MemoryPlan> plan = PlanMemory(buffers, 64, [&] {
    ++questions;
    return false;
  });
  ASSERT_TRUE(plan.has_value());
  EXPECT_LE(plan->total, 2 * LivenessBound(buffers, 64));
  // There is one for each 65,536 looks at a buffer; all pairs would be 3,000 for each order.
  EXPECT_LE(questions, 5 * 10);
}

TEST(MemoryTest, PlanningOfManyBuffersCanBeGivenUp) {
  const std::vector<LiveBuffer> buffers(2'000, LiveBuffer::During(64, 0, 1));  // all at once
  int questions = 0;
  EXPECT_FALSE(PlanMemory(buffers, 64, [&] { return ++questions == 3; }).has_value());
  EXPECT_EQ(questions, 3);
}

TEST(MemoryTest, TheBoundIsTheMostThatIsLiveAtAnyStep) {
  std::mt19937 random(12);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint32_t>(end));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<LiveBuffer> buffers;
    for (int i = below(12); i > 0; --i) {
      const int first = below(8);
      buffers.push_back(LiveBuffer::During(below(200), first, first + below(4)));
    }
    int64_t most = 0;
    for (int step = 0; step < 12; ++step) {
      int64_t live = 0;
      for (const LiveBuffer& buffer : buffers) {
        if (buffer.first() <= step && step <= buffer.last()) live += (buffer.size + 63) / 64 * 64;
      }
      most = std::max(most, live);
    }
    EXPECT_EQ(LivenessBound(buffers, 64), most);
  }
}

}  // namespace
}  // namespace lockstep::plan
