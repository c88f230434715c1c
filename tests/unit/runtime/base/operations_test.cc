#include "runtime/base/operations.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(OperationsTest, AreFoundByNumberNameAndLabel) {
  for (const OperationFacts& facts : kOperations) {
    EXPECT_EQ(FindOperation(static_cast<size_t>(facts.kind)), &facts);
    EXPECT_EQ(FindOperationNamed(facts.name), &facts);
    EXPECT_EQ(FindOperationLabelled(facts.label), &facts);
    EXPECT_EQ(&FactsOf(facts.kind), &facts);
  }
  EXPECT_EQ(FindOperation(kOperationCount), nullptr);
  EXPECT_EQ(FindOperationNamed("all_to_all"), nullptr);
  EXPECT_EQ(FindOperationLabelled("all-to-all"), nullptr);
}

// nccl-tests' factors.
TEST(OperationsTest, CarryWhatTheirBusFactorSays) {
  EXPECT_DOUBLE_EQ(BusFactor(OperationKind::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(OperationKind::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(OperationKind::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor(OperationKind::kAllReduce, 1), 0);
}

TEST(OperationsTest, AreLeftTogetherIfEveryRankWaitsForEvery) {
  EXPECT_TRUE(IsLeftTogether(OperationKind::kBarrier));
  EXPECT_TRUE(IsLeftTogether(OperationKind::kAllToAll));
  EXPECT_FALSE(IsLeftTogether(OperationKind::kBroadcast));
  EXPECT_FALSE(IsLeftTogether(OperationKind::kReduce));
  EXPECT_FALSE(IsLeftTogether(OperationKind::kTransfer));
}

}  // namespace
}  // namespace lockstep
