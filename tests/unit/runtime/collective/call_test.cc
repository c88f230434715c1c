#include "runtime/collective/call.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace lockstep::collective {
namespace {

constexpr Call kAllReduce = {
    .kind = Kind::kAllReduce, .dtype = DType::kFloat32, .op = ReduceOp::kSum};

TEST(CallTest, AgreesWhereAllButThePlacesAreEqual) {
  Call other = kAllReduce;
  other.send = BufferLocation::kArena;
  other.recv = BufferLocation::kStaged;
  EXPECT_TRUE(kAllReduce.Agrees(other));
  other = kAllReduce;
  other.root = 1;
  EXPECT_FALSE(kAllReduce.Agrees(other));
  other = kAllReduce;
  other.uneven = 1;
  EXPECT_FALSE(kAllReduce.Agrees(other));
}

TEST(CallTest, DescribesWhatMatters) {
  EXPECT_EQ(Describe(kAllReduce, 4, {}, 0), "allreduce sum of 4 float32");
  EXPECT_EQ(Describe({.kind = Kind::kBarrier}, 0, {}, 0), "barrier");
  EXPECT_EQ(Describe({.kind = Kind::kBroadcast, .dtype = DType::kInt8}, 9, {}, 5),
            "broadcast of 9 int8 from rank 5");
  const int64_t counts[] = {1, 0, 3};
  EXPECT_EQ(Describe({.kind = Kind::kGather, .dtype = DType::kInt8, .uneven = 1}, 4, counts, 2),
            "gather of 4 int8 in parts of [1, 0, 3] to rank 2");
}

TEST(CallTest, TellsADisagreementByWhoSaysWhat) {
  const std::vector<std::string> descriptions = {"barrier", "broadcast", "barrier"};
  // Members in another order than the world's.
  EXPECT_EQ(DescribeDisagreement(descriptions, {7, 4, 2}),
            "the ranks disagree: ranks 2, 7 call barrier; rank 4 calls broadcast");
}

TEST(CallTest, NamesTheRanksOfALargeWorldByRanges) {
  std::vector<std::string> descriptions(1000, "barrier");
  std::vector<Rank> ranks(descriptions.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  descriptions[3] = "broadcast";
  EXPECT_EQ(DescribeDisagreement(descriptions, ranks),
            "the ranks disagree: ranks 0-2, 4-999 call barrier; rank 3 calls broadcast");
  ranks.resize(3);
  EXPECT_EQ(Message(DescribeAbsence({}, {}, ranks, "barrier")),
            "ranks 0-2 did not come to barrier in time");
}

}  // namespace
}  // namespace lockstep::collective
