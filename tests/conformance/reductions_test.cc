// AllReduce, Reduce and ReduceScatter of every dtype and operation.
#include <cmath>
#include <cstring>
#include <limits>
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
    const auto* bits = static_cast<const uint32_t*>(recv.buffer().data);
    uint64_t hash = 0;
    for (size_t i = 0; i < kCount; ++i) hash = hash * 31 + bits[i];
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

TEST_P(ReductionsTest, NanSpreadsThroughMinAndMax) {
  OnEveryRank([](RankUnderTest& self) {
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        constexpr size_t kCount = 100;
        TestBuffer data(&self.allocator, dtype, kCount);
        const int poisoned = self.size() - 1;
        data.Fill([&](size_t i) {
          const bool nan = i % 10 == 0 && self.rank() == poisoned;
          return nan ? std::numeric_limits<double>::quiet_NaN() : 1.0;
        });
        ASSERT_TRUE(self.comm.AllReduce(data.buffer(), data.buffer(), op, Patience()).ok());
        const std::vector<double> values = data.Read();
        for (size_t i = 0; i < kCount; ++i) {
          EXPECT_EQ(std::isnan(values[i]), i % 10 == 0) << dtype << ' ' << op << ' ' << i;
        }
      }
    }
  });
}

TEST_P(ReductionsTest, ReduceGivesTheRootTheResult) {
  OnEveryRank([](RankUnderTest& self) {
    for (Rank root = 0; root < self.size(); ++root) {
      for (const DType dtype : {DType::kUInt8, DType::kFloat16, DType::kFloat64}) {
        for (const size_t count : {0, 1, 300, 9001}) {
          TestBuffer send(&self.allocator, dtype, count);
          TestBuffer recv(&self.allocator, dtype, count);
          send.Fill([&](size_t i) { return Pattern(ReduceOp::kSum, dtype, self.rank(), i); });
          const bool is_root = self.rank() == root;
          const Status status = self.comm.Reduce(send.buffer(), is_root ? recv.buffer() : Buffer(),
                                                 ReduceOp::kSum, root, Patience());
          ASSERT_TRUE(status.ok()) << status;
          if (!is_root) continue;
          ExpectElements(
              recv, [&](size_t i) { return Reduced(ReduceOp::kSum, dtype, self.size(), i); }, 0,
              "reduce");
        }
      }
    }
  });
}

TEST_P(ReductionsTest, ReduceScatterDealsTheResultOut) {
  OnEveryRank([](RankUnderTest& self) {
    for (const int64_t base : {0, 1, 70, 5000}) {
      for (const bool in_place : {false, true}) {
        const std::vector<int64_t> counts = UnevenCounts(self.size(), base);
        int64_t total = 0;
        int64_t begin = 0;
        for (int r = 0; r < self.size(); ++r) {
          if (r == self.rank()) begin = total;
          total += counts[static_cast<size_t>(r)];
        }
        const int64_t mine = counts[static_cast<size_t>(self.rank())];
        TestBuffer send(&self.allocator, DType::kFloat32, static_cast<size_t>(total));
        TestBuffer recv(&self.allocator, DType::kFloat32, static_cast<size_t>(mine));
        send.Fill(
            [&](size_t i) { return Pattern(ReduceOp::kSum, DType::kFloat32, self.rank(), i); });
        const std::vector<double> before = send.Read();
        const Buffer result = in_place ? send.Part(begin, mine) : recv.buffer();
        const Status status =
            self.comm.ReduceScatter(send.buffer(), result, counts, ReduceOp::kSum, Patience());
        ASSERT_TRUE(status.ok()) << status;
        const auto* values = static_cast<const float*>(result.data);
        for (int64_t i = 0; i < mine; ++i) {
          ASSERT_EQ(values[i], Reduced(ReduceOp::kSum, DType::kFloat32, self.size(),
                                       static_cast<size_t>(begin + i)));
        }
        const std::vector<double> after = send.Read();
        for (int64_t i = 0; i < total; ++i) {
          if (in_place && i >= begin && i < begin + mine) continue;
          ASSERT_EQ(after[static_cast<size_t>(i)], before[static_cast<size_t>(i)]) << i;
        }
      }
    }
  });
}

TEST_P(ReductionsTest, WhatIsNotDefinedIsRefused) {
  OnEveryRank([](RankUnderTest& self) {
    uint8_t byte = 0;
    const auto reduce = [&](DType dtype, ReduceOp op) {
      const Buffer buffer{&byte, 1, dtype};
      return self.comm.AllReduce(buffer, buffer, op, Patience()).code();
    };
    EXPECT_EQ(reduce(DType::kFloat8E4M3, ReduceOp::kSum), StatusCode::kInvalidArgument);
    EXPECT_EQ(reduce(DType::kFloat8E5M2, ReduceOp::kMax), StatusCode::kInvalidArgument);
    EXPECT_EQ(reduce(DType::kBool, ReduceOp::kAvg), StatusCode::kInvalidArgument);
    // An error that every rank sees by itself leaves the communicator usable.
    EXPECT_EQ(reduce(DType::kUInt8, ReduceOp::kSum), StatusCode::kOk);
  });
}

}  // namespace
}  // namespace lockstep::collective
