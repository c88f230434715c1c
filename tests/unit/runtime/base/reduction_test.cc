#include "runtime/base/reduction.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ReductionTest, NamesAndParsesEach) {
  for (int i = 0; i < kReductionCount; ++i) {
    const auto op = static_cast<Reduction>(i);
    const StatusOr<Reduction> parsed = ParseReduction(Name(op));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, op);
  }
}

TEST(ReductionTest, AnUnknownNameIsToldWhatThereIs) {
  const Status status = ParseReduction("mean").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status),
            "unknown reduction \"mean\"; the reductions are sum, prod, min, max, avg");
}

}  // namespace
}  // namespace lockstep
