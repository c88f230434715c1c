#include "runtime/cuda/elements.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/tensor/element.h"
#include "tests/unit/runtime/cuda/gpu_under_test.h"

namespace lockstep::cuda {
namespace {

using Bytes = std::vector<std::byte>;

// More than one thread block has, and no multiple of anything.
constexpr size_t kCount = 5003;

class ElementsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    elements_ = std::make_unique<Elements>(gpu_);
  }
  std::unique_ptr<Elements> elements_;
};

TEST_F(ElementsTest, FillWritesEveryElementAndNothingElse) {
  constexpr uint64_t kPattern = 0x8877665544332211;
  for (const DType dtype : {DType::kUInt8, DType::kUInt16, DType::kFloat32, DType::kFloat64}) {
    const size_t size = SizeOf(dtype);
    const auto memory = Put(Bytes((kCount + 1) * size, std::byte{7}));
    ASSERT_TRUE(
        elements_->Fill(streams_->compute(), {memory->data(), kCount, dtype}, kPattern).ok());
    Bytes expected;
    for (size_t i = 0; i < kCount * size; ++i) {
      expected.push_back(static_cast<std::byte>(kPattern >> (i % size * 8) & 0xff));
    }
    expected.resize((kCount + 1) * size, std::byte{7});
    EXPECT_EQ(Get<std::byte>(memory->data(), expected.size()), expected) << dtype;
  }
}

TEST_F(ElementsTest, EveryPairOfDTypesIsCastAsOnTheHost) {
  std::mt19937_64 random(1);
  for (int f = 0; f < kDTypeCount; ++f) {
    const auto from = static_cast<DType>(f);
    // Any bits are some element: infinities, NaNs and subnormal numbers are among them.
    Bytes source(kCount * SizeOf(from));
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
    const auto memory = Put(source);
    for (int t = 0; t < kDTypeCount; ++t) {
      const auto to = static_cast<DType>(t);
      Bytes expected(kCount * SizeOf(to));
      tensor::CastElements({source.data(), kCount, from}, {expected.data(), kCount, to});
      const auto result = Allocate(expected.size());
      ASSERT_TRUE(elements_
                      ->Cast(streams_->compute(), {memory->data(), kCount, from},
                             {result->data(), kCount, to})
                      .ok());
      const Bytes cast = Get<std::byte>(result->data(), expected.size());
      // Which NaN a NaN is, hardware decides.
      const auto differs = [&](size_t i) {
        return tensor::VisitDType(to, [&]<typename T>(std::type_identity<T>) {
          const T& a = reinterpret_cast<const T*>(cast.data())[i];
          const T& b = reinterpret_cast<const T*>(expected.data())[i];
          if (std::memcmp(&a, &b, sizeof(T)) == 0) return false;
          const auto x = tensor::ConvertElement<double>(a);
          const auto y = tensor::ConvertElement<double>(b);
          return x == x || y == y;
        });
      };
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_FALSE(differs(i)) << from << " to " << to << ", element " << i;
      }
    }
  }
}

TEST_F(ElementsTest, ArangeCountsInIntegersExactly) {
  // Beyond what a double holds, and through the end of int64.
  const uint64_t begin = (uint64_t{1} << 62) + 1;
  const auto memory = Allocate(kCount * 8);
  ASSERT_TRUE(elements_
                  ->Arange(streams_->compute(), {memory->data(), kCount, DType::kInt64},
                           {.exact = true, .int_begin = begin, .int_step = uint64_t(-3)})
                  .ok());
  const auto result = Get<uint64_t>(memory->data(), kCount);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], begin - 3 * i) << i;
}

TEST_F(ElementsTest, ArangeCountsInDoublesAsTheHostDoes) {
  const auto memory = Allocate(kCount * 4);
  ASSERT_TRUE(elements_
                  ->Arange(streams_->compute(), {memory->data(), kCount, DType::kFloat32},
                           {.exact = false, .float_begin = 0.1, .float_step = 0.3})
                  .ok());
  const auto result = Get<float>(memory->data(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    // In two steps, for the compiler to round twice as the kernel does.
    volatile double way = static_cast<double>(i) * 0.3;
    ASSERT_EQ(result[i], static_cast<float>(0.1 + way)) << i;
  }
}

TEST_F(ElementsTest, NoElementsAreNoWork) {
  EXPECT_TRUE(elements_->Fill(streams_->compute(), {nullptr, 0, DType::kFloat32}, 1).ok());
  EXPECT_TRUE(
      elements_
          ->Cast(streams_->compute(), {nullptr, 0, DType::kFloat32}, {nullptr, 0, DType::kInt8})
          .ok());
}

}  // namespace
}  // namespace lockstep::cuda
