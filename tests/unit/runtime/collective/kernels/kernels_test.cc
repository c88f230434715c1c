// Each instruction set that this machine has, against plain arithmetic.
#include "runtime/collective/kernels/kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/float_convert.h"
#include "runtime/tensor/element.h"
#include "tests/unit/runtime/collective/kernels/reference.h"

namespace lockstep::collective::kernels {
namespace {

// Longer than a few vectors of the widest level, with a rest for every vector width.
constexpr size_t kCount = 64 * 4 * 2 + 64 + 13;

// Random bytes, aligned to a line.
class Input {
 public:
  Input(std::mt19937& random, size_t size_bytes) : memory_(size_bytes + 128) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64;
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  std::byte* data() { return data_; }
  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::vector<std::byte> memory_;
  std::byte* data_;
};

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else if constexpr (kIsNarrowFloat<T>) {
    return std::isnan(ToFloat(value));
  } else {
    return false;
  }
}

// The same bits, but that one NaN is as good as another.
template <typename T>
bool Same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (IsNan(a) && IsNan(b));
}

// What reductions are most easily wrong about, beside random bits.
template <typename T>
std::vector<T> Special() {
  if constexpr (std::is_same_v<T, Bool8>) {
    return {Bool8{0}, Bool8{1}, Bool8{2}, Bool8{0x80}, Bool8{0xff}};
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    return {T{0}, T{1}, static_cast<T>(-1), Limits::min(), Limits::max()};
  } else if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    return {T{0},
            -T{0},
            T{1},
            Limits::quiet_NaN(),
            Limits::infinity(),
            -Limits::infinity(),
            Limits::denorm_min(),
            Limits::max(),
            -Limits::max()};
  } else {
    std::vector<T> narrow;
    for (const float value : Special<float>()) narrow.push_back(NarrowTo<T>(value));
    return narrow;
  }
}

// Inputs of `num` ranks: random bits, which are every kind of number there is, and at the front
// every pair of special values at every pair of ranks.
template <typename T>
std::vector<std::vector<T>> Inputs(std::mt19937& random, int num) {
  const std::vector<T> special = Special<T>();
  std::vector<std::vector<T>> inputs(static_cast<size_t>(num));
  const auto add_random_row = [&] {
    for (std::vector<T>& input : inputs) {
      const uint64_t bits = random() | uint64_t{random()} << 32;
      std::array<std::byte, sizeof(T)> bytes;
      std::memcpy(bytes.data(), &bits, sizeof(T));
      input.push_back(std::bit_cast<T>(bytes));
    }
  };
  for (std::vector<T>& one : inputs) {
    for (std::vector<T>& other : inputs) {
      for (const T a : special) {
        for (const T b : special) {
          add_random_row();
          one.back() = a;
          other.back() = b;
        }
      }
    }
  }
  // The same again with nothing special beside: min and max of infinities hide the rest.
  for (const T a : special) {
    for (const T b : special) {
      for (size_t r = 0; r < inputs.size(); ++r) {
        for (size_t other = 0; other < inputs.size(); ++other) {
          inputs[other].push_back(other == r ? a : b);
        }
      }
    }
  }
  for (size_t i = 0; i < kCount; ++i) add_random_row();
  return inputs;
}

template <typename T>
void ExpectReferenceOf(const Table& table, DType dtype, ReduceOp op, int num, Stores stores) {
  const Combine combine = table.combine[static_cast<int>(op)][static_cast<int>(dtype)];
  ASSERT_NE(combine, nullptr) << table.name << ' ' << op << ' ' << dtype;
  std::mt19937 random(17);
  const std::vector<std::vector<T>> inputs = Inputs<T>(random, num);
  // Without the first element, so that no source is aligned.
  const size_t count = inputs[0].size() - 1;
  std::vector<const void*> sources;
  for (const std::vector<T>& input : inputs) sources.push_back(input.data() + 1);
  Input first(random, count * sizeof(T));
  Input second(random, count * sizeof(T));
  void* const destinations[] = {first.data(), second.data()};
  combine(destinations, 2, sources.data(), num, count, stores);
  std::vector<T> row(inputs.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t r = 0; r < inputs.size(); ++r) row[r] = inputs[r][i + 1];
    const T expected = Reference<T>(op, std::span<const T>(row));
    ASSERT_TRUE(Same(first.As<T>()[i], expected) && Same(second.As<T>()[i], expected))
        << table.name << ' ' << op << " of " << num << ' ' << dtype << ": element " << i;
  }
}

TEST(KernelsTest, EveryLevelGivesTheBitsOfTheReference) {
  for (const Table* table : Runnable()) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      for (int o = 0; o < kReduceOpCount; ++o) {
        const auto op = static_cast<ReduceOp>(o);
        if (!IsArithmetic(dtype) || (dtype == DType::kBool && op == ReduceOp::kAvg)) {
          EXPECT_EQ(table->combine[o][d], nullptr) << op << ' ' << dtype;
          continue;
        }
        for (int num = 1; num <= 4; ++num) {
          for (const Stores stores : {Stores::kCached, Stores::kStream}) {
            tensor::VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
              if constexpr (!std::is_same_v<T, Float8E4M3> && !std::is_same_v<T, Float8E5M2>) {
                ExpectReferenceOf<T>(*table, dtype, op, num, stores);
              }
            });
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

// No wider type holds their sum.
TEST(KernelsTest, SumsInAveragesOf64BitIntegersWrap) {
  const int64_t high[] = {std::numeric_limits<int64_t>::max(), -7};
  const int64_t low[] = {1, 2};
  const void* const sources[] = {high, low};
  for (const Table* table : Runnable()) {
    int64_t result[2];
    void* const destination = result;
    table->combine[static_cast<int>(ReduceOp::kAvg)][static_cast<int>(DType::kInt64)](
        &destination, 1, sources, 2, 2, Stores::kCached);
    EXPECT_EQ(result[0], std::numeric_limits<int64_t>::min() / 2) << table->name;
    EXPECT_EQ(result[1], -2);
  }
}

TEST(KernelsTest, TheBestIsTheLastThatRuns) {
  EXPECT_EQ(&Best(), Runnable().back());
  EXPECT_STREQ(Runnable().front()->name, "generic");
}

}  // namespace
}  // namespace lockstep::collective::kernels
