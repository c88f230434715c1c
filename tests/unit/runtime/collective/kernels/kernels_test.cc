// Each instruction set that this machine has, against plain arithmetic and against each other.
#include "runtime/collective/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/float_convert.h"

namespace lockstep::collective::kernels {
namespace {

using Bytes = std::vector<std::byte>;

// Longer than a few vectors of the widest level, with a rest for every vector width.
constexpr size_t kCount = 64 * 4 * 2 + 64 + 13;

// Random bytes, aligned to a line, but for `shift` bytes.
class Input {
 public:
  Input(std::mt19937& random, size_t size_bytes, size_t shift = 0)
      : memory_(size_bytes + 128), size_bytes_(size_bytes) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64 + shift;
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  std::byte* data() { return data_; }
  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(data_);
  }
  Bytes Contents() const { return {data_, data_ + size_bytes_}; }

 private:
  Bytes memory_;
  std::byte* data_;
  size_t size_bytes_;
};

bool IsNan(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16: {
      uint16_t bits;
      std::memcpy(&bits, element, sizeof(bits));
      return std::isnan(dtype == DType::kFloat16 ? ToFloat(Float16{bits})
                                                 : ToFloat(BFloat16{bits}));
    }
    case DType::kFloat32: {
      float value;
      std::memcpy(&value, element, sizeof(value));
      return std::isnan(value);
    }
    case DType::kFloat64: {
      double value;
      std::memcpy(&value, element, sizeof(value));
      return std::isnan(value);
    }
    default:
      return false;
  }
}

// The same bits, but that one NaN is as good as another.
void ExpectSame(DType dtype, const Bytes& got, const Bytes& expected, const std::string& what) {
  const size_t size = SizeOf(dtype);
  for (size_t i = 0; i < got.size(); i += size) {
    if (std::memcmp(&got[i], &expected[i], size) == 0) continue;
    if (IsNan(dtype, &got[i]) && IsNan(dtype, &expected[i])) continue;
    ADD_FAILURE() << what << ": element " << i / size << " differs";
    return;
  }
}

// Random bits are every kind of number there is: subnormal, infinite, NaN, integers that overflow.
TEST(KernelsTest, EveryLevelGivesTheBitsOfTheGenericOne) {
  std::mt19937 random(17);
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const size_t size_bytes = kCount * SizeOf(dtype);
    Input a(random, size_bytes);
    Input b(random, size_bytes, SizeOf(dtype));
    Input c(random, size_bytes);
    const void* const sources[] = {a.data(), b.data(), c.data()};
    for (int op = 0; op < kReduceOpCount; ++op) {
      for (int num_sources = 1; num_sources <= 3; ++num_sources) {
        Bytes expected;
        for (const Table* table : Runnable()) {
          const std::string what = std::string(table->name) + " " +
                                   std::string(Name(static_cast<ReduceOp>(op))) + " of " +
                                   std::to_string(num_sources) + " " + std::string(Name(dtype));
          const Combine combine = table->combine[op][d];
          ASSERT_EQ(combine == nullptr, Runnable()[0]->combine[op][d] == nullptr) << what;
          if (combine == nullptr) continue;
          for (const Stores stores : {Stores::kCached, Stores::kStream}) {
            Input first(random, size_bytes);
            Input second(random, size_bytes);
            void* const destinations[] = {first.data(), second.data()};
            combine(destinations, 2, sources, num_sources, kCount, stores);
            if (expected.empty()) expected = first.Contents();
            ExpectSame(dtype, first.Contents(), expected, what);
            ExpectSame(dtype, second.Contents(), expected, what + ", second destination");
          }
        }
      }
    }
  }
}

TEST(KernelsTest, EveryLengthWritesWhatItShouldAndNoMore) {
  std::mt19937 random(18);
  for (const Table* table : Runnable()) {
    const Combine sum =
        table->combine[static_cast<int>(ReduceOp::kSum)][static_cast<int>(DType::kInt32)];
    for (size_t count = 0; count < 150; ++count) {
      Input a(random, 200 * sizeof(uint32_t));
      Input b(random, 200 * sizeof(uint32_t));
      Input result(random, 200 * sizeof(uint32_t));
      const uint32_t beyond = result.As<uint32_t>()[count];
      const void* const sources[] = {a.data(), b.data()};
      void* const destination = result.data();
      sum(&destination, 1, sources, 2, count, Stores::kCached);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(result.As<uint32_t>()[i], a.As<uint32_t>()[i] + b.As<uint32_t>()[i]);
      }
      ASSERT_EQ(result.As<uint32_t>()[count], beyond) << table->name << ' ' << count;
    }
  }
}

// The narrow floats' own arithmetic: widen, add as float32, round once.
template <typename Narrow>
void ExpectSumsOf(DType dtype) {
  // Every value there is, added to one that brings out ties and overflows, and to itself.
  constexpr size_t kAll = 1 << 16;
  for (const Table* table : Runnable()) {
    const Combine sum = table->combine[static_cast<int>(ReduceOp::kSum)][static_cast<int>(dtype)];
    for (const uint16_t addend : {0x0000, 0x0001, 0x3c01, 0x7bff, 0xbf80}) {
      std::vector<uint16_t> all(kAll);
      std::vector<uint16_t> other(kAll, addend);
      std::vector<uint16_t> result(kAll);
      for (size_t i = 0; i < kAll; ++i) all[i] = static_cast<uint16_t>(i);
      const void* const sources[] = {all.data(), other.data(), all.data()};
      void* const destination = result.data();
      sum(&destination, 1, sources, 3, kAll, Stores::kCached);
      for (size_t i = 0; i < kAll; ++i) {
        const float value = ToFloat(Narrow{all[i]});
        const float exact = (value + ToFloat(Narrow{addend})) + value;
        const auto expected = NarrowTo<Narrow>(exact);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(ToFloat(Narrow{result[i]}))) << table->name << ' ' << i;
        } else {
          ASSERT_EQ(result[i], expected.bits) << table->name << ' ' << i << " + " << addend;
        }
      }
    }
  }
}

TEST(KernelsTest, Float16SumsRoundOnce) { ExpectSumsOf<Float16>(DType::kFloat16); }
TEST(KernelsTest, BFloat16SumsRoundOnce) { ExpectSumsOf<BFloat16>(DType::kBFloat16); }

TEST(KernelsTest, AveragesOfIntegersNeitherWrapNorRoundUp) {
  const int32_t high[] = {std::numeric_limits<int32_t>::max(), -7, 7, -1};
  const int32_t low[] = {std::numeric_limits<int32_t>::max() - 1, -2, 2, 0};
  const void* const sources[] = {high, low};
  for (const Table* table : Runnable()) {
    int32_t result[4];
    void* const destination = result;
    table->combine[static_cast<int>(ReduceOp::kAvg)][static_cast<int>(DType::kInt32)](
        &destination, 1, sources, 2, 4, Stores::kCached);
    EXPECT_EQ(result[0], std::numeric_limits<int32_t>::max() - 1) << table->name;
    EXPECT_EQ(result[1], -4);
    EXPECT_EQ(result[2], 4);
    EXPECT_EQ(result[3], 0);
  }
}

TEST(KernelsTest, TheBestIsTheLastThatRuns) {
  EXPECT_EQ(&Best(), Runnable().back());
  EXPECT_STREQ(Runnable().front()->name, "generic");
}

}  // namespace
}  // namespace lockstep::collective::kernels
