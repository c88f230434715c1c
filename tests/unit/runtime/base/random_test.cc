#include "runtime/base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep {
namespace {

TEST(RandomTest, HexHasTwoDigitsPerByteAndDiffers) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = RandomHex(8);
    EXPECT_EQ(text.size(), 16u);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(RandomHex(0), "");
}

}  // namespace
}  // namespace lockstep
