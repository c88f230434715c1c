#include "runtime/fragment/identity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep::fragment {
namespace {

template <typename T>
T Identity(Reduction op) {
  const auto bytes = IdentityElement(op, DTypeOf<T>::value);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  T value{};
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

TEST(IdentityTest, LeavesEveryValueWhatItIs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {0.0, -0.0, 1.5, -3.25, kInfinity, -kInfinity, 1e-310}) {
    const auto expect_same = [&](double combined) {
      EXPECT_EQ(combined, value);
      EXPECT_EQ(std::signbit(combined), std::signbit(value)) << "of " << value;
    };
    expect_same(value + Identity<double>(Reduction::kSum));
    expect_same(value * Identity<double>(Reduction::kProd));
    expect_same(std::min(value, Identity<double>(Reduction::kMin)));
    expect_same(std::max(value, Identity<double>(Reduction::kMax)));
  }
}

TEST(IdentityTest, OfWholeNumbersIsTheEndOfTheirRange) {
  EXPECT_EQ(Identity<int32_t>(Reduction::kSum), 0);
  EXPECT_EQ(Identity<int32_t>(Reduction::kProd), 1);
  EXPECT_EQ(Identity<int32_t>(Reduction::kMin), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(Identity<int64_t>(Reduction::kMax), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Identity<uint8_t>(Reduction::kMax), 0);
}

TEST(IdentityTest, OfTruthsIsThatOfAnyAndAll) {
  EXPECT_EQ(Identity<bool>(Reduction::kMax), false);
  EXPECT_EQ(Identity<bool>(Reduction::kMin), true);
}

TEST(IdentityTest, EveryDTypeWithArithmeticHasOne) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const Reduction op : {Reduction::kSum, Reduction::kProd, Reduction::kMin}) {
      EXPECT_EQ(IdentityElement(op, dtype).ok(), IsArithmetic(dtype)) << dtype;
    }
    EXPECT_FALSE(IdentityElement(Reduction::kAvg, dtype).ok());
  }
}

}  // namespace
}  // namespace lockstep::fragment
