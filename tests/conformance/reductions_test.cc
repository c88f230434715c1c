// AllReduce, Reduce and ReduceScatter of every dtype and operation.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using ReductionsTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(ReductionsTest);

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kAvg};

std::vector<DType> Arithmetic(ReduceOp op) {
  std::vector<DType> dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (IsArithmetic(dtype) && !(dtype == DType::kBool && op == ReduceOp::kAvg)) {
      dtypes.push_back(dtype);
    }
  }
  return dtypes;
}

std::string Describe(const char* what, ReduceOp op, DType dtype, size_t count, bool in_place) {
  std::ostringstream text;
  text << what << ' ' << op << " of " << count << ' ' << dtype << (in_place ? ", in place" : "");
  return text.str();
}

TEST_P(ReductionsTest, AllReduceGivesEveryRankTheResult) {
  OnEveryRank([](RankUnderTest& self) {
    for (const ReduceOp op : kOps) {
      for (const DType dtype : Arithmetic(op)) {
        for (const size_t count : {0, 1, 3, 63, 64, 257, 1025, 20'011}) {
          for (const bool in_place : {false, true}) {
            const std::string what = Describe("allreduce", op, dtype, count, in_place);
            TestBuffer send(&self.allocator, dtype, count);
            TestBuffer recv(&self.allocator, dtype, count);
            send.Fill([&](size_t i) { return Pattern(op, dtype, self.rank(), i); });
            TestBuffer& result = in_place ? send : recv;
            const Status status =
                self.comm.AllReduce(send.buffer(), result.buffer(), op, Patience());
            ASSERT_TRUE(status.ok()) << what << ": " << status;
            ExpectElements(
                result, [&](size_t i) { return Reduced(op, dtype, self.size(), i); },
                Tolerance(op, dtype), what);
          }
        }
      }
    }
  });
}

TEST_P(ReductionsTest, LargeAllReduceHasTheSameBitsEverywhere) {
  OnEveryRank([](RankUnderTest& self) {
    constexpr size_t kCount = 700'001;
    TestBuffer send(&self.allocator, DType::kFloat32, kCount);
    TestBuffer recv(&self.allocator, DType::kFloat32, kCount);
    // Sums of these depend on their order.
    send.Fill([&](size_t i) { return std::sin(static_cast<double>(i) * (self.rank() + 1)); });
    ASSERT_TRUE(self.comm.AllReduce(send.buffer(), recv.buffer(), ReduceOp::kSum, Patience()).ok());
    uint64_t hash = 0;
    for (const std::byte byte : recv.Bytes()) hash = hash * 31 + static_cast<uint64_t>(byte);
    std::vector<uint64_t> hashes(static_cast<size_t>(self.size()));
    const std::vector<int64_t> counts(hashes.size(), 1);
    ASSERT_TRUE(
        self.comm
            .AllGather(ViewOf(&hash, 1), ViewOf(hashes.data(), hashes.size()), counts, Patience())
            .ok());
    for (uint64_t other : hashes) EXPECT_EQ(other, hash);
  });
}

TEST_P(ReductionsTest, MemoryOutsideTheBackendsOwnWorksToo) {
  OnEveryRank([](RankUnderTest& self) {
    for (const size_t count : {5, 4000, 900'000}) {
      // Each rank mixes its own kind of memory.
      const bool outside = self.rank() % 2 == 0;
      TestBuffer send(outside ? nullptr : &self.allocator, DType::kInt32, count);
      TestBuffer recv(outside ? &self.allocator : nullptr, DType::kInt32, count);
      send.Fill([&](size_t i) { return Pattern(ReduceOp::kSum, DType::kInt32, self.rank(), i); });
      ASSERT_TRUE(
          self.comm.AllReduce(send.buffer(), recv.buffer(), ReduceOp::kSum, Patience()).ok());
      ExpectElements(
          recv, [&](size_t i) { return Reduced(ReduceOp::kSum, DType::kInt32, self.size(), i); }, 0,
          "allreduce outside");
    }
  });
}

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// Small enough for one rendezvous, and too large for it.
constexpr size_t kTwoSizes[] = {100, 10'000};

// Whichever rank has it: the first and the last are combined differently from the others.
TEST_P(ReductionsTest, NanSpreadsThroughMinAndMaxFromAnyRank) {
  if (!GetParam().backend.orders_all_floats) GTEST_SKIP() << "what it makes of NaNs is not ours";
  OnEveryRank([](RankUnderTest& self) {
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        for (const size_t count : kTwoSizes) {
          for (Rank poisoned = 0; poisoned < self.size(); ++poisoned) {
            TestBuffer data(&self.allocator, dtype, count);
            data.Fill([&](size_t i) {
              const bool nan = i % 10 == 0 && self.rank() == poisoned;
              return nan ? std::numeric_limits<double>::quiet_NaN() : self.rank();
            });
            ASSERT_TRUE(self.comm.AllReduce(data.buffer(), data.buffer(), op, Patience()).ok());
            const std::vector<double> values = data.Read();
            for (size_t i = 0; i < count; ++i) {
              ASSERT_EQ(std::isnan(values[i]), i % 10 == 0)
                  << dtype << ' ' << op << " with rank " << poisoned << "'s NaN: element " << i;
            }
          }
        }
      }
    }
  });
}

TEST_P(ReductionsTest, MinusZeroIsLessThanZeroFromAnyRank) {
  if (size() < 2) GTEST_SKIP() << "one rank has nothing to compare with";
  if (!GetParam().backend.orders_all_floats) GTEST_SKIP() << "which zero it takes is not ours";
  OnEveryRank([](RankUnderTest& self) {
    for (const DType dtype : kFloats) {
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        for (const size_t count : kTwoSizes) {
          for (Rank odd = 0; odd < self.size(); ++odd) {
            // One rank has another zero than the others: of either sign, by turns.
            TestBuffer data(&self.allocator, dtype, count);
            data.Fill([&](size_t i) { return (i % 2 == 0) == (self.rank() == odd) ? -0.0 : 0.0; });
            ASSERT_TRUE(self.comm.AllReduce(data.buffer(), data.buffer(), op, Patience()).ok());
            const std::vector<double> values = data.Read();
            for (size_t i = 0; i < count; ++i) {
              ASSERT_EQ(values[i], 0);
              ASSERT_EQ(std::signbit(values[i]), op == ReduceOp::kMin)
                  << dtype << ' ' << op << " with rank " << odd << "'s zero: element " << i;
            }
          }
        }
      }
    }
  });
}

// As memory filled by other programs may have it.
TEST_P(ReductionsTest, AnyByteButZeroIsTrue) {
  OnEveryRank([](RankUnderTest& self) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax;
      for (const size_t count : kTwoSizes) {
        TestBuffer data(&self.allocator, DType::kBool, count);
        std::vector<std::byte> bytes(count);
        // No two ranks' bytes share a bit, and every third element has a rank that says false.
        for (size_t i = 0; i < count; ++i) {
          const bool no = i % 3 == 0 &&
                          static_cast<size_t>(self.rank()) == i % static_cast<size_t>(self.size());
          bytes[i] = static_cast<std::byte>(no ? 0 : 1 << self.rank());
        }
        data.SetBytes(bytes);
        ASSERT_TRUE(self.comm.AllReduce(data.buffer(), data.buffer(), op, Patience()).ok());
        const std::vector<std::byte> result = data.Bytes();
        for (size_t i = 0; i < count; ++i) {
          const bool expected = i % 3 != 0 || (any && self.size() > 1);
          ASSERT_EQ(result[i], static_cast<std::byte>(expected)) << op << " of bool: element " << i;
        }
      }
    }
  });
}

TEST_P(ReductionsTest, AveragesOf64BitIntegersDivideASumThatWraps) {
  if (size() < 2) GTEST_SKIP() << "two ranks are enough to overflow";
  OnEveryRank([](RankUnderTest& self) {
    const int64_t most = std::numeric_limits<int64_t>::max();
    uint64_t sum = 0;
    for (Rank r = 0; r < self.size(); ++r) sum += static_cast<uint64_t>(most - r);
    int64_t value = most - self.rank();
    auto positive = static_cast<uint64_t>(value);
    for (const Buffer one : {ViewOf(&value, 1), ViewOf(&positive, 1)}) {
      ASSERT_TRUE(self.comm.AllReduce(one, one, ReduceOp::kAvg, Patience()).ok());
    }
    EXPECT_EQ(value, static_cast<int64_t>(sum) / self.size());
    EXPECT_EQ(positive, sum / static_cast<uint64_t>(self.size()));
  });
}

TEST_P(ReductionsTest, AveragesOfSmallerIntegersNeverWrapAndTruncateTowardsZero) {
  OnEveryRank([](RankUnderTest& self) {
    const auto expect_average = [&]<typename T>(T) {
      // The extremes, and what lies about zero; each rank's is one closer to it, and beyond.
      constexpr T kLeast = std::numeric_limits<T>::min();
      constexpr T kMost = std::numeric_limits<T>::max();
      constexpr T kFirst[] = {kLeast, kMost, static_cast<T>(kLeast == 0 ? 0 : -3), 3};
      const auto value_of = [](Rank rank, T first) {
        return static_cast<T>(first <= 0 ? first + static_cast<T>(rank)
                                         : first - static_cast<T>(rank));
      };
      for (const T first : kFirst) {
        int64_t sum = 0;
        for (Rank r = 0; r < self.size(); ++r) sum += value_of(r, first);
        T value = value_of(self.rank(), first);
        const Buffer one = ViewOf(&value, 1);
        ASSERT_TRUE(self.comm.AllReduce(one, one, ReduceOp::kAvg, Patience()).ok());
        EXPECT_EQ(value, sum / self.size()) << one.dtype << " from " << int64_t{first};
      }
    };
    expect_average(int8_t{});
    expect_average(uint8_t{});
    expect_average(int16_t{});
    expect_average(uint16_t{});
    expect_average(int32_t{});
    expect_average(uint32_t{});
  });
}

TEST_P(ReductionsTest, ReduceGivesTheRootTheResult) {
  OnEveryRank([](RankUnderTest& self) {
    for (const ReduceOp op : kOps) {
      for (const DType dtype : Arithmetic(op)) {
        for (const size_t count : {0, 1, 300, 9001}) {
          // Every rank is the root of some.
          const Rank root = static_cast<Rank>((count + static_cast<size_t>(dtype)) %
                                              static_cast<size_t>(self.size()));
          TestBuffer send(&self.allocator, dtype, count);
          TestBuffer recv(&self.allocator, dtype, count);
          send.Fill([&](size_t i) { return Pattern(op, dtype, self.rank(), i); });
          const bool is_root = self.rank() == root;
          const Status status = self.comm.Reduce(send.buffer(), is_root ? recv.buffer() : Buffer(),
                                                 op, root, Patience());
          ASSERT_TRUE(status.ok()) << status;
          if (!is_root) continue;
          ExpectElements(
              recv, [&](size_t i) { return Reduced(op, dtype, self.size(), i); },
              Tolerance(op, dtype), Describe("reduce", op, dtype, count, false));
        }
      }
    }
  });
}

TEST_P(ReductionsTest, ReduceScatterDealsTheResultOut) {
  OnEveryRank([](RankUnderTest& self) {
    for (const ReduceOp op : kOps) {
      for (const DType dtype : Arithmetic(op)) {
        for (const int64_t base : {0, 1, 70, 5000}) {
          for (const bool in_place : {false, true}) {
            const std::string what =
                Describe("reduce-scatter", op, dtype, static_cast<size_t>(base), in_place);
            const std::vector<int64_t> counts = UnevenCounts(self.size(), base);
            const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
            const int64_t begin =
                std::accumulate(counts.begin(), counts.begin() + self.rank(), int64_t{0});
            const int64_t mine = counts[static_cast<size_t>(self.rank())];
            TestBuffer send(&self.allocator, dtype, static_cast<size_t>(total));
            TestBuffer recv(&self.allocator, dtype, static_cast<size_t>(mine));
            send.Fill([&](size_t i) { return Pattern(op, dtype, self.rank(), i); });
            const std::vector<double> before = send.Read();
            const Buffer result = in_place ? send.Part(begin, mine) : recv.buffer();
            const Status status =
                self.comm.ReduceScatter(send.buffer(), result, counts, op, Patience());
            ASSERT_TRUE(status.ok()) << what << ": " << status;
            const auto is_own = [&](size_t i) {
              return i >= static_cast<size_t>(begin) && i < static_cast<size_t>(begin + mine);
            };
            if (in_place) {
              ExpectElements(
                  send,
                  [&](size_t i) {
                    return is_own(i) ? Reduced(op, dtype, self.size(), i) : before[i];
                  },
                  Tolerance(op, dtype), what);
            } else {
              ASSERT_EQ(send.Read(), before) << what << " leaves its input as it is";
              ExpectElements(
                  recv,
                  [&](size_t i) {
                    return Reduced(op, dtype, self.size(), static_cast<size_t>(begin) + i);
                  },
                  Tolerance(op, dtype), what);
            }
          }
        }
      }
    }
  });
}

TEST_P(ReductionsTest, WhatIsNotDefinedIsRefused) {
  OnEveryRank([reduces_float8 = GetParam().backend.reduces_float8](RankUnderTest& self) {
    uint8_t byte = 0;
    const auto reduce = [&](DType dtype, ReduceOp op) {
      const Buffer buffer{&byte, 1, dtype};
      return self.comm.AllReduce(buffer, buffer, op, Patience()).code();
    };
    const StatusCode of_float8 = reduces_float8 ? StatusCode::kOk : StatusCode::kInvalidArgument;
    EXPECT_EQ(reduce(DType::kFloat8E4M3, ReduceOp::kSum), of_float8);
    EXPECT_EQ(reduce(DType::kFloat8E5M2, ReduceOp::kMax), of_float8);
    EXPECT_EQ(reduce(DType::kBool, ReduceOp::kAvg), StatusCode::kInvalidArgument);
    // An error that every rank sees by itself leaves the communicator usable.
    EXPECT_EQ(reduce(DType::kUInt8, ReduceOp::kSum), StatusCode::kOk);
  });
}

}  // namespace
}  // namespace lockstep::collective
