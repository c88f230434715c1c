#include "runtime/base/bulk_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

TEST(FastCopyTest, CopiesEverySizeFromAndToEveryPlaceAndNoMore) {
  for (const Stores stores : {Stores::kCached, Stores::kStream}) {
    for (const size_t size :
         {0, 1, 63, 255, 256, 319, 767, 768, 1000, 16'384, 70'001, 1'048'575, 1'048'576}) {
      for (const size_t shift : {0, 1, 63}) {
        std::vector<uint8_t> from(size + 64);
        std::vector<uint8_t> to(size + 64, 0xaa);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + 1);
        FastCopy(to.data() + shift, from.data() + 1, size, stores);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= shift && i < shift + size;
          ASSERT_EQ(to[i], inside ? from[i - shift + 1] : 0xaa) << size << ' ' << shift << ' ' << i;
        }
      }
    }
  }
}

TEST(FastCopyTest, CopiesMoreThanTheCachesHold) {
  constexpr size_t kSize = (size_t{25} << 20) + 77;
  std::vector<uint8_t> from(kSize);
  std::vector<uint8_t> to(kSize);
  for (size_t i = 0; i < kSize; ++i) from[i] = static_cast<uint8_t>(i ^ i >> 11);
  FastCopy(to.data(), from.data(), kSize);
  EXPECT_TRUE(from == to);
}

TEST(FastCopyTest, SmallWorkStaysInTheCaches) {
  EXPECT_FALSE(ExceedsCaches(4096));
  EXPECT_TRUE(ExceedsCaches(size_t{1} << 40));
  EXPECT_TRUE(ExceedsCaches(LeastThatExceedsCaches()));
  EXPECT_FALSE(ExceedsCaches(LeastThatExceedsCaches() - 1));
}

}  // namespace
}  // namespace lockstep
