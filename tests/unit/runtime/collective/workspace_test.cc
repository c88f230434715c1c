#include "runtime/collective/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::collective {
namespace {

TEST(WorkspaceTest, GrowsAndIsKept) {
  Workspace space;
  const auto large = space.AtLeast(1000);
  ASSERT_TRUE(large.ok()) << large.status();
  std::memset(*large, 1, 1000);
  EXPECT_EQ(*space.AtLeast(10), *large);
  const auto larger = space.AtLeast(2000);
  ASSERT_TRUE(larger.ok()) << larger.status();
  std::memset(*larger, 1, 2000);
}

TEST(WorkspaceTest, MemoryThatCannotBeHadIsAnErrorThatNamesItsSize) {
  Workspace space;
  const size_t too_much = size_t{1} << 60;
  const auto memory = space.AtLeast(too_much);
  EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(memory.status()), testing::HasSubstr("1152921504606846976 bytes"));
  const auto less = space.AtLeast(10);
  ASSERT_TRUE(less.ok()) << less.status();
  std::memset(*less, 1, 10);
}

}  // namespace
}  // namespace lockstep::collective
