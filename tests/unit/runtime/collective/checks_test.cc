#include "runtime/collective/checks.h"

#include <gtest/gtest.h>

namespace lockstep::collective {
namespace {

TEST(ChecksTest, RootsAndPeersAreRanksOfTheGroup) {
  EXPECT_TRUE(CheckRoot(0, 3).ok());
  EXPECT_TRUE(CheckRoot(2, 3).ok());
  EXPECT_FALSE(CheckRoot(3, 3).ok());
  EXPECT_FALSE(CheckRoot(-1, 3).ok());
  EXPECT_TRUE(CheckPeer(1, 0, 3).ok());
  EXPECT_FALSE(CheckPeer(3, 0, 3).ok());
  EXPECT_EQ(Message(CheckPeer(1, 1, 3)), "rank 1 neither sends to nor receives from itself");
}

TEST(ChecksTest, ReductionsWantSomethingToComputeWith) {
  EXPECT_TRUE(CheckReduction(ReduceOp::kAvg, DType::kBFloat16).ok());
  EXPECT_TRUE(CheckReduction(ReduceOp::kMax, DType::kBool).ok());
  EXPECT_FALSE(CheckReduction(ReduceOp::kAvg, DType::kBool).ok());
  EXPECT_FALSE(CheckReduction(ReduceOp::kSum, DType::kFloat8E4M3).ok());
  EXPECT_FALSE(CheckReduction(static_cast<ReduceOp>(kReduceOpCount), DType::kFloat32).ok());
}

TEST(ChecksTest, CountsAreOnePerRankAndNotNegative) {
  EXPECT_TRUE(CheckCounts({0, 5, 2}, 3).ok());
  EXPECT_FALSE(CheckCounts({0, 5}, 3).ok());
  EXPECT_EQ(Message(CheckCounts({0, -5, 2}, 3)), "the count of rank 1 is negative: -5");
}

TEST(ChecksTest, BuffersHaveTheDTypeTheCountAndMemory) {
  float data[2] = {};
  EXPECT_TRUE(CheckBuffer("send", ViewOf(data, 2), 2, DType::kFloat32).ok());
  EXPECT_TRUE(CheckBuffer("send", {nullptr, 0, DType::kFloat32}, 0, DType::kFloat32).ok());
  EXPECT_EQ(Message(CheckBuffer("send", ViewOf(data, 2), 3, DType::kFloat32)),
            "send has 2 elements where 3 are expected");
  EXPECT_EQ(Message(CheckBuffer("recv", ViewOf(data, 2), 2, DType::kInt32)),
            "recv is float32 where int32 is expected");
  EXPECT_FALSE(CheckBuffer("recv", {nullptr, 1, DType::kFloat32}, 1, DType::kFloat32).ok());
}

TEST(ChecksTest, BuffersAreTheSameOrApart) {
  float data[8] = {};
  EXPECT_TRUE(CheckOverlap(ViewOf(data, 4), ViewOf(data + 4, 4), data).ok());
  EXPECT_TRUE(CheckOverlap(ViewOf(data + 4, 4), ViewOf(data, 4), data + 4).ok());
  EXPECT_TRUE(CheckOverlap(ViewOf(data, 4), ViewOf(data, 4), data).ok());
  EXPECT_FALSE(CheckOverlap(ViewOf(data, 4), ViewOf(data, 4), nullptr).ok());
  EXPECT_FALSE(CheckOverlap(ViewOf(data, 4), ViewOf(data + 3, 4), data).ok());
  EXPECT_TRUE(CheckOverlap(ViewOf(data, 4), ViewOf(data + 3, 0), data).ok());
}

TEST(ChecksTest, ATeamNamesRanksOnceTheCallerAmongThem) {
  EXPECT_TRUE(CheckSplit({2, 0}, 0, 3).ok());
  EXPECT_FALSE(CheckSplit({2, 0}, 1, 3).ok());
  EXPECT_FALSE(CheckSplit({0, 0}, 0, 3).ok());
  EXPECT_FALSE(CheckSplit({0, 3}, 0, 3).ok());
  EXPECT_FALSE(CheckSplit({}, 0, 3).ok());
}

TEST(ChecksTest, OffsetsAddUpWhatLiesBefore) {
  const int64_t counts[] = {4, 0, 3};
  EXPECT_EQ(SumOf(counts), 7);
  EXPECT_EQ(OffsetOf(counts, 0), 0);
  EXPECT_EQ(OffsetOf(counts, 2), 4);
}

}  // namespace
}  // namespace lockstep::collective
