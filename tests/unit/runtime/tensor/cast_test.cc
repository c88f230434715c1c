#include "runtime/tensor/element.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::tensor {
namespace {

// Small integers that every dtype but bool holds exactly, in odd numbers so that vectorised loops
// have a rest to deal with.
constexpr int kCount = 37;

std::vector<std::byte> SmallIntegers(DType dtype) {
  std::vector<std::byte> bytes(kCount * SizeOf(dtype));
  VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
    for (int i = 0; i < kCount; ++i) {
      reinterpret_cast<T*>(bytes.data())[i] = ConvertElement<T>(int32_t{i % 9});
    }
  });
  return bytes;
}

TEST(CastTest, EveryPairOfDTypesKeepsSmallIntegers) {
  for (int f = 0; f < kDTypeCount; ++f) {
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto from = static_cast<DType>(f);
      const auto to = static_cast<DType>(t);
      const bool through_bool = from == DType::kBool || to == DType::kBool;
      const std::vector<std::byte> source = SmallIntegers(from);
      std::vector<std::byte> target(kCount * SizeOf(to));
      CastElements({source.data(), kCount, from}, {target.data(), kCount, to});
      VisitDType(to, [&]<typename T>(std::type_identity<T>) {
        for (int i = 0; i < kCount; ++i) {
          const int expected = through_bool ? (i % 9 != 0) : i % 9;
          const T element = reinterpret_cast<const T*>(target.data())[i];
          ASSERT_EQ(ConvertElement<int32_t>(element), expected) << from << " to " << to;
        }
      });
    }
  }
}

TEST(CastTest, WritesNothingBeyondTheEnd) {
  const std::vector<float> source(5, 1.0f);
  std::vector<int64_t> target(6, -7);
  CastElements(ViewOf(source.data(), 5), ViewOf(target.data(), 5));
  EXPECT_EQ(target, (std::vector<int64_t>{1, 1, 1, 1, 1, -7}));
}

TEST(CastTest, EmptyBuffersMayBeNull) {
  CastElements({nullptr, 0, DType::kFloat32}, {nullptr, 0, DType::kFloat32});
  CastElements({nullptr, 0, DType::kFloat32}, {nullptr, 0, DType::kInt8});
}

}  // namespace
}  // namespace lockstep::tensor
