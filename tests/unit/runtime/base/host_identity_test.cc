#include "runtime/base/host_identity.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(HostTest, IdentityIsStableWithinAProcess) {
  EXPECT_FALSE(ThisHost().name.empty());
  EXPECT_FALSE(ThisHost().id.empty());
  EXPECT_EQ(ThisHost().id, ThisHost().id);
}

TEST(HostTest, IdentityTellsBootAndPidNamespace) {
  // "<boot id>/<inode of the namespace>": equal only where process ids mean the same.
  const size_t slash = ThisHost().id.find('/');
  ASSERT_NE(slash, std::string::npos);
  EXPECT_EQ(slash, 36u) << "a boot id is a UUID";
  EXPECT_EQ(ThisHost().machine, ThisHost().id.substr(0, slash)) << "whatever the namespace is";
  EXPECT_EQ(ThisHost().id.find_first_not_of("0123456789", slash + 1), std::string::npos);
}

TEST(HostTest, LabelNamesHostAndProcess) { EXPECT_EQ(ProcessLabel("node-7", 42), "node-7:42"); }

}  // namespace
}  // namespace lockstep
