#include "runtime/base/dtype.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(BufferTest, ViewKnowsItsDTypeAndSize) {
  std::vector<float> values(3);
  const Buffer view = ViewOf(values.data(), values.size());
  EXPECT_EQ(view.data, values.data());
  EXPECT_EQ(view.count, 3u);
  EXPECT_EQ(view.dtype, DType::kFloat32);
  EXPECT_EQ(view.size_bytes(), 12u);
}

TEST(BufferTest, WritableViewConvertsToReadOnlyOne) {
  int64_t value = 7;
  const ConstBuffer view = ViewOf(&value, 1);
  EXPECT_EQ(view.data, &value);
  EXPECT_EQ(view.size_bytes(), 8u);
  EXPECT_EQ(view.dtype, DType::kInt64);
}

TEST(BufferTest, DefaultIsEmpty) {
  EXPECT_EQ(Buffer{}.size_bytes(), 0u);
  EXPECT_EQ(ConstBuffer{}.data, nullptr);
}

}  // namespace
}  // namespace lockstep
