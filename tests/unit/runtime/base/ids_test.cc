#include "runtime/base/ids.h"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>
#include <unordered_set>

namespace lockstep {
namespace {

static_assert(!std::is_convertible_v<uint32_t, SessionId>, "ids are made explicitly");
static_assert(!std::is_constructible_v<SessionId, Epoch>, "and never from one another");

TEST(IdsTest, StrongIdsCompareHashAndPrint) {
  EXPECT_EQ(SessionId(3), SessionId(3));
  EXPECT_LT(Epoch(3), Epoch(4));
  EXPECT_EQ(SessionId().value, 0u);
  const std::unordered_set<SessionId> set = {SessionId(1), SessionId(2), SessionId(1)};
  EXPECT_EQ(set.size(), 2u);
  std::ostringstream out;
  out << SessionId(42);
  EXPECT_EQ(out.str(), "42");
}

TEST(RegisterIdTest, PackingRoundTrips) {
  for (const RegisterId id : {RegisterId{0, 1}, RegisterId{5, 2}, RegisterId{~0u, ~0u}}) {
    EXPECT_EQ(RegisterId::FromPacked(id.Packed()), id);
  }
}

TEST(RegisterIdTest, GenerationZeroNamesNothing) {
  EXPECT_TRUE(RegisterId().IsNone());
  EXPECT_FALSE((RegisterId{0, 1}).IsNone());
}

TEST(RegisterIdTest, PrintsIndexAndGeneration) {
  std::ostringstream out;
  out << RegisterId{5, 2};
  EXPECT_EQ(out.str(), "r5.2");
}

}  // namespace
}  // namespace lockstep
