// The operations that move data: broadcast, gather, scatter, all-to-all, messages, barrier.
#include <numeric>
#include <string>
#include <vector>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using MovementsTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(MovementsTest);

int64_t Sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// The element at `i` of the concatenation of all ranks' Labels.
struct Joined {
  std::vector<double> elements;
  explicit Joined(const std::vector<int64_t>& counts) {
    for (size_t r = 0; r < counts.size(); ++r) {
      for (int64_t i = 0; i < counts[r]; ++i) {
        elements.push_back(Label(static_cast<int>(r), static_cast<size_t>(i)));
      }
    }
  }
  double operator()(size_t i) const { return elements[i]; }
};

std::vector<std::vector<int64_t>> CountCases(int size) {
  const std::vector<int64_t> none(static_cast<size_t>(size), 0);
  const std::vector<int64_t> even(static_cast<size_t>(size), 40);
  std::vector<int64_t> last(static_cast<size_t>(size), 0);
  last.back() = 12'000;
  return {none,
          even,
          last,
          UnevenCounts(size, 3),
          UnevenCounts(size, 2500),
          UnevenCounts(size, 50'000)};
}

TEST_P(MovementsTest, BroadcastOfEveryDtypeFromEveryRoot) {
  OnEveryRank([](RankUnderTest& self) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      for (Rank root = 0; root < self.size(); ++root) {
        for (const size_t count : {0, 1, 31, 2000, 33'333}) {
          TestBuffer send(&self.allocator, dtype, count);
          TestBuffer recv(&self.allocator, dtype, count);
          send.Fill([&](size_t i) { return dtype == DType::kBool ? i % 2 : Label(root, i); });
          const bool is_root = self.rank() == root;
          const bool in_place = is_root && count % 2 == 1;
          const TestBuffer& result = in_place ? send : recv;
          const Status status =
              self.comm.Broadcast(is_root ? ConstBuffer(send.buffer()) : ConstBuffer(),
                                  result.buffer(), root, Patience());
          ASSERT_TRUE(status.ok()) << status;
          ExpectElements(
              result, [&](size_t i) { return dtype == DType::kBool ? i % 2 : Label(root, i); }, 0,
              "broadcast");
        }
      }
    }
  });
}

TEST_P(MovementsTest, AllGatherJoinsUnevenParts) {
  OnEveryRank([](RankUnderTest& self) {
    for (const std::vector<int64_t>& counts : CountCases(self.size())) {
      for (const bool in_place : {false, true}) {
        const auto mine = static_cast<size_t>(counts[static_cast<size_t>(self.rank())]);
        const int64_t begin =
            std::accumulate(counts.begin(), counts.begin() + self.rank(), int64_t{0});
        TestBuffer send(&self.allocator, DType::kFloat32, mine);
        TestBuffer recv(&self.allocator, DType::kFloat32, static_cast<size_t>(Sum(counts)));
        send.Fill([&](size_t i) { return Label(self.rank(), i); });
        ConstBuffer source = send.buffer();
        if (in_place) {
          recv.Fill([&](size_t i) { return Label(self.rank(), i - static_cast<size_t>(begin)); });
          source = recv.Part(begin, static_cast<int64_t>(mine));
        }
        const Status status = self.comm.AllGather(source, recv.buffer(), counts, Patience());
        ASSERT_TRUE(status.ok()) << status;
        ExpectElements(recv, Joined(counts), 0, "allgather");
      }
    }
  });
}

TEST_P(MovementsTest, GatherJoinsAtTheRoot) {
  OnEveryRank([](RankUnderTest& self) {
    for (Rank root = 0; root < self.size(); ++root) {
      for (const std::vector<int64_t>& counts : CountCases(self.size())) {
        const auto mine = static_cast<size_t>(counts[static_cast<size_t>(self.rank())]);
        const bool is_root = self.rank() == root;
        TestBuffer send(&self.allocator, DType::kInt16, mine);
        TestBuffer recv(&self.allocator, DType::kInt16,
                        is_root ? static_cast<size_t>(Sum(counts)) : 0);
        send.Fill([&](size_t i) { return Label(self.rank(), i); });
        const Status status = self.comm.Gather(send.buffer(), is_root ? recv.buffer() : Buffer(),
                                               counts, root, Patience());
        ASSERT_TRUE(status.ok()) << status;
        if (is_root) ExpectElements(recv, Joined(counts), 0, "gather");
      }
    }
  });
}

TEST_P(MovementsTest, ScatterDealsOutFromTheRoot) {
  OnEveryRank([](RankUnderTest& self) {
    for (Rank root = 0; root < self.size(); ++root) {
      for (const std::vector<int64_t>& counts : CountCases(self.size())) {
        const bool is_root = self.rank() == root;
        const Joined joined(counts);
        const auto mine = static_cast<size_t>(counts[static_cast<size_t>(self.rank())]);
        TestBuffer send(&self.allocator, DType::kFloat64,
                        is_root ? static_cast<size_t>(Sum(counts)) : 0);
        TestBuffer recv(&self.allocator, DType::kFloat64, mine);
        send.Fill([&](size_t i) { return joined(i); });
        const Status status =
            self.comm.Scatter(is_root ? ConstBuffer(send.buffer()) : ConstBuffer(), recv.buffer(),
                              counts, root, Patience());
        ASSERT_TRUE(status.ok()) << status;
        ExpectElements(
            recv, [&](size_t i) { return Label(self.rank(), i); }, 0, "scatter");
      }
    }
  });
}

TEST_P(MovementsTest, AllToAllOfUnequalParts) {
  OnEveryRank([](RankUnderTest& self) {
    for (const int64_t base : {0, 1, 100, 9000}) {
      // Rank q sends (q + r) % 3 * base elements to rank r.
      const auto count = [&](int from, int to) { return (from + to) % 3 * base; };
      std::vector<int64_t> send_counts;
      std::vector<int64_t> recv_counts;
      std::vector<double> out;
      std::vector<double> expected;
      for (int r = 0; r < self.size(); ++r) {
        send_counts.push_back(count(self.rank(), r));
        recv_counts.push_back(count(r, self.rank()));
        for (int64_t i = 0; i < send_counts.back(); ++i) {
          out.push_back(self.rank() * 10 + r + static_cast<double>(i % 2) * 100);
        }
        for (int64_t i = 0; i < recv_counts.back(); ++i) {
          expected.push_back(r * 10 + self.rank() + static_cast<double>(i % 2) * 100);
        }
      }
      TestBuffer send(&self.allocator, DType::kInt32, out.size());
      TestBuffer recv(&self.allocator, DType::kInt32, expected.size());
      send.Fill([&](size_t i) { return out[i]; });
      const Status status =
          self.comm.AllToAll(send.buffer(), send_counts, recv.buffer(), recv_counts, Patience());
      ASSERT_TRUE(status.ok()) << status;
      ExpectElements(
          recv, [&](size_t i) { return expected[i]; }, 0, "all-to-all");
    }
  });
}

// What rank `from` gives to rank `to`, for any dtype.
double Given(DType dtype, int from, int to, size_t i) {
  return dtype == DType::kBool ? (i + static_cast<size_t>(from + to)) % 2 : Label(from + 3 * to, i);
}

TEST_P(MovementsTest, EveryDtypeIsMovedByEveryOperation) {
  OnEveryRank([](RankUnderTest& self) {
    const auto size = static_cast<size_t>(self.size());
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      // Some parts ride along, and some are fetched, whatever the size of an element.
      for (const size_t part : {size_t{3}, size_t{700}, size_t{5000}}) {
        const std::string what = std::string(Name(dtype)) + " in parts of " + std::to_string(part);
        const std::vector<int64_t> counts(size, static_cast<int64_t>(part));
        const Rank root = static_cast<Rank>(static_cast<size_t>(d) % size);
        const bool is_root = self.rank() == root;
        TestBuffer one(&self.allocator, dtype, part);
        TestBuffer all(&self.allocator, dtype, part * size);
        TestBuffer result(&self.allocator, dtype, part * size);

        one.Fill([&](size_t i) { return Given(dtype, self.rank(), 0, i); });
        const auto joined = [&](size_t i) {
          return Given(dtype, static_cast<int>(i / part), 0, i % part);
        };
        ASSERT_TRUE(self.comm.AllGather(one.buffer(), result.buffer(), counts, Patience()).ok());
        ExpectElements(result, joined, 0, "allgather of " + what);
        result.Fill([](size_t) { return 0; });
        ASSERT_TRUE(self.comm
                        .Gather(one.buffer(), is_root ? result.buffer() : Buffer(), counts, root,
                                Patience())
                        .ok());
        if (is_root) ExpectElements(result, joined, 0, "gather of " + what);

        all.Fill([&](size_t i) {
          return Given(dtype, self.rank(), static_cast<int>(i / part), i % part);
        });
        ASSERT_TRUE(self.comm
                        .Scatter(is_root ? ConstBuffer(all.buffer()) : ConstBuffer(), one.buffer(),
                                 counts, root, Patience())
                        .ok());
        ExpectElements(
            one, [&](size_t i) { return Given(dtype, root, self.rank(), i); }, 0,
            "scatter of " + what);
        ASSERT_TRUE(
            self.comm.AllToAll(all.buffer(), counts, result.buffer(), counts, Patience()).ok());
        ExpectElements(
            result,
            [&](size_t i) {
              return Given(dtype, static_cast<int>(i / part), self.rank(), i % part);
            },
            0, "all-to-all of " + what);

        if (size < 2) continue;
        const Rank next = (self.rank() + 1) % self.size();
        const Rank previous = (self.rank() + self.size() - 1) % self.size();
        ASSERT_TRUE(
            self.comm.SendRecv(all.Part(0, counts[0]), next, one.buffer(), previous, Patience())
                .ok());
        ExpectElements(
            one, [&](size_t i) { return Given(dtype, previous, 0, i); }, 0, "ring of " + what);
      }
    }
  });
}

TEST_P(MovementsTest, MessagesArriveInOrder) {
  OnEveryRank([](RankUnderTest& self) {
    if (self.rank() > 1 || self.size() < 2) return;
    for (const size_t count : {0, 1, 1000, 300'000}) {
      for (int message = 0; message < 5; ++message) {
        TestBuffer data(&self.allocator, DType::kFloat32, count);
        const auto value = [&](size_t i) { return Label(message, i); };
        if (self.rank() == 0) {
          data.Fill(value);
          const Status status = self.comm.Send(data.buffer(), 1, Patience());
          ASSERT_TRUE(status.ok()) << status;
        } else {
          const Status status = self.comm.Recv(data.buffer(), 0, Patience());
          ASSERT_TRUE(status.ok()) << status;
          ExpectElements(data, value, 0, "message");
        }
      }
    }
  });
}

TEST_P(MovementsTest, RingsOfMessagesDoNotWaitInACircle) {
  OnEveryRank([](RankUnderTest& self) {
    if (self.size() < 2) return;
    const Rank next = (self.rank() + 1) % self.size();
    const Rank previous = (self.rank() + self.size() - 1) % self.size();
    for (const size_t count : {1, 500, 250'000}) {
      for (int round = 0; round < 3; ++round) {
        TestBuffer send(&self.allocator, DType::kFloat32, count);
        TestBuffer recv(&self.allocator, DType::kFloat32, count);
        send.Fill([&](size_t i) { return Label(self.rank() + round, i); });
        const Status status =
            self.comm.SendRecv(send.buffer(), next, recv.buffer(), previous, Patience());
        ASSERT_TRUE(status.ok()) << status;
        ExpectElements(
            recv, [&](size_t i) { return Label(previous + round, i); }, 0, "ring");
      }
    }
  });
}

TEST_P(MovementsTest, BarrierWaitsForAll) {
  OnEveryRank([](RankUnderTest& self) {
    const std::vector<int64_t> ones(static_cast<size_t>(self.size()), 1);
    for (int round = 0; round < 50; ++round) {
      // One clock for all ranks of a host, processes too.
      int64_t came = Deadline::Clock::now().time_since_epoch().count();
      ASSERT_TRUE(self.comm.Barrier(Patience()).ok());
      const int64_t left = Deadline::Clock::now().time_since_epoch().count();
      std::vector<int64_t> all_came(ones.size());
      ASSERT_TRUE(self.comm
                      .AllGather(ViewOf(&came, 1), ViewOf(all_came.data(), all_came.size()), ones,
                                 Patience())
                      .ok());
      for (const int64_t other_came : all_came) EXPECT_LE(other_came, left);
    }
  });
}

}  // namespace
}  // namespace lockstep::collective
