#include "runtime/collective/communicator.h"

#include <gtest/gtest.h>

namespace lockstep::collective {
namespace {

TEST(ReduceOpTest, NamesAndParsesEach) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    const StatusOr<ReduceOp> parsed = ParseReduceOp(Name(op));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, op);
  }
}

TEST(ReduceOpTest, AnUnknownNameIsToldWhatThereIs) {
  const Status status = ParseReduceOp("mean").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status),
            "unknown reduction \"mean\"; the reductions are sum, prod, min, max, avg");
}

}  // namespace
}  // namespace lockstep::collective
