// Tensors in memory that the backend has to copy through its own: every operation, in more pieces
// than one, with ranks that do not all need it.
#include <numeric>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using MemoryTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(MemoryTest);

// In all, more than any backend copies at a time (shm: 4 MiB).
constexpr size_t kCount = 2'300'000;

int16_t ValueAt(int rank, size_t i) {
  return static_cast<int16_t>((i * 7 + static_cast<size_t>(rank) * 13) % 1001);
}

class Elements {
 public:
  Elements(tensor::Allocator* allocator, size_t count) : memory_(allocator, DType::kInt16, count) {}

  Buffer buffer() const { return memory_.buffer(); }
  size_t count() const { return buffer().count; }
  int16_t* data() const { return static_cast<int16_t*>(buffer().data); }

  void Fill(int rank) {
    for (size_t i = 0; i < count(); ++i) data()[i] = ValueAt(rank, i);
  }
  // Element i is expected(i), for the `size` from `begin` on. Looks at some in every line, or the
  // sanitized builds would take minutes.
  template <typename Expected>
  void Expect(size_t begin, size_t size, Expected expected, const char* what) const {
    for (size_t i = 0; i < size; i += 13) {
      if (data()[begin + i] == expected(i)) continue;
      ADD_FAILURE() << what << ": element " << begin + i << " is " << data()[begin + i]
                    << ", expected " << expected(i);
      return;
    }
  }

 private:
  TestBuffer memory_;
};

// Unequal parts, kCount and a little in all.
std::vector<int64_t> Parts(int size) {
  std::vector<int64_t> parts;
  for (int r = 0; r < size; ++r) {
    parts.push_back(static_cast<int64_t>(kCount) / size + r * 1000 - 500);
  }
  return parts;
}
size_t Sum(const std::vector<int64_t>& parts) {
  return static_cast<size_t>(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
}
size_t Before(const std::vector<int64_t>& parts, int rank) {
  return static_cast<size_t>(std::accumulate(parts.begin(), parts.begin() + rank, int64_t{0}));
}

// Calls `body` with where this rank's send and recv buffers lie: every rank outside of the
// backend's memory, and some of the ranks with one or the other.
void ForEachPlacing(RankUnderTest& self,
                    const std::function<void(tensor::Allocator*, tensor::Allocator*)>& body) {
  tensor::Allocator* const own = &self.allocator;
  tensor::Allocator* const outside = nullptr;
  body(outside, outside);
  body(self.rank() % 2 == 0 ? own : outside, self.rank() % 3 == 0 ? own : outside);
}

TEST_P(MemoryTest, Reductions) {
  OnEveryRank([](RankUnderTest& self) {
    const auto sum = [&](size_t i) {
      int total = 0;
      for (int r = 0; r < self.size(); ++r) total += ValueAt(r, i);
      return total;
    };
    ForEachPlacing(self, [&](tensor::Allocator* from, tensor::Allocator* to) {
      Elements send(from, kCount);
      Elements recv(to, kCount);
      send.Fill(self.rank());
      Status status = self.comm.AllReduce(send.buffer(), recv.buffer(), ReduceOp::kSum, Patience());
      ASSERT_TRUE(status.ok()) << status;
      recv.Expect(0, kCount, sum, "allreduce");

      const Rank root = self.size() / 2;
      const bool is_root = self.rank() == root;
      status = self.comm.Reduce(send.buffer(), is_root ? send.buffer() : Buffer(), ReduceOp::kSum,
                                root, Patience());
      ASSERT_TRUE(status.ok()) << status;
      if (is_root) send.Expect(0, kCount, sum, "reduce in place");

      const std::vector<int64_t> parts = Parts(self.size());
      const auto mine = static_cast<size_t>(parts[static_cast<size_t>(self.rank())]);
      const size_t begin = Before(parts, self.rank());
      Elements all(from, Sum(parts));
      Elements part(to, mine);
      all.Fill(self.rank());
      status =
          self.comm.ReduceScatter(all.buffer(), part.buffer(), parts, ReduceOp::kSum, Patience());
      ASSERT_TRUE(status.ok()) << status;
      part.Expect(
          0, mine, [&](size_t i) { return sum(begin + i); }, "reduce-scatter");
    });
  });
}

TEST_P(MemoryTest, OneToAllAndBack) {
  OnEveryRank([](RankUnderTest& self) {
    const Rank root = self.size() - 1;
    const bool is_root = self.rank() == root;
    const std::vector<int64_t> parts = Parts(self.size());
    const auto mine = static_cast<size_t>(parts[static_cast<size_t>(self.rank())]);
    const size_t begin = Before(parts, self.rank());
    const auto from_root = [&](size_t i) { return ValueAt(root, i); };
    ForEachPlacing(self, [&](tensor::Allocator* from, tensor::Allocator* to) {
      Elements all(from, Sum(parts));
      Elements copy(to, all.count());
      Elements part(to, mine);
      if (is_root) all.Fill(root);
      const ConstBuffer source = is_root ? ConstBuffer(all.buffer()) : ConstBuffer();

      Status status = self.comm.Broadcast(source, copy.buffer(), root, Patience());
      ASSERT_TRUE(status.ok()) << status;
      copy.Expect(0, copy.count(), from_root, "broadcast");

      status = self.comm.Scatter(source, part.buffer(), parts, root, Patience());
      ASSERT_TRUE(status.ok()) << status;
      part.Expect(
          0, mine, [&](size_t i) { return from_root(begin + i); }, "scatter");

      std::fill_n(all.data(), all.count(), int16_t{-1});
      status = self.comm.Gather(part.buffer(), is_root ? all.buffer() : Buffer(), parts, root,
                                Patience());
      ASSERT_TRUE(status.ok()) << status;
      if (is_root) all.Expect(0, all.count(), from_root, "gather");
    });
  });
}

TEST_P(MemoryTest, AllToAllAndAllGather) {
  OnEveryRank([](RankUnderTest& self) {
    const std::vector<int64_t> parts = Parts(self.size());
    const auto mine = static_cast<size_t>(parts[static_cast<size_t>(self.rank())]);
    ForEachPlacing(self, [&](tensor::Allocator* from, tensor::Allocator* to) {
      Elements part(from, mine);
      Elements joined(to, Sum(parts));
      part.Fill(self.rank());
      Status status = self.comm.AllGather(part.buffer(), joined.buffer(), parts, Patience());
      ASSERT_TRUE(status.ok()) << status;
      for (int r = 0; r < self.size(); ++r) {
        joined.Expect(
            Before(parts, r), static_cast<size_t>(parts[static_cast<size_t>(r)]),
            [&](size_t i) { return ValueAt(r, i); }, "allgather");
      }

      // Every rank sends parts[r] elements to rank r, so rank r receives parts[r] from each.
      const std::vector<int64_t> received(parts.size(), static_cast<int64_t>(mine));
      Elements send(from, Sum(parts));
      Elements recv(to, Sum(received));
      send.Fill(self.rank());
      status = self.comm.AllToAll(send.buffer(), parts, recv.buffer(), received, Patience());
      ASSERT_TRUE(status.ok()) << status;
      const size_t begin = Before(parts, self.rank());
      for (int r = 0; r < self.size(); ++r) {
        recv.Expect(
            static_cast<size_t>(r) * mine, mine, [&](size_t i) { return ValueAt(r, begin + i); },
            "all-to-all");
      }
    });
  });
}

TEST_P(MemoryTest, Messages) {
  if (size() < 2) GTEST_SKIP() << "there is no rank to send to";
  OnEveryRank([](RankUnderTest& self) {
    const Rank next = (self.rank() + 1) % self.size();
    const Rank previous = (self.rank() + self.size() - 1) % self.size();
    ForEachPlacing(self, [&](tensor::Allocator* from, tensor::Allocator* to) {
      Elements send(from, kCount);
      Elements recv(to, kCount);
      send.Fill(self.rank());
      const Status status =
          self.comm.SendRecv(send.buffer(), next, recv.buffer(), previous, Patience());
      ASSERT_TRUE(status.ok()) << status;
      recv.Expect(
          0, kCount, [&](size_t i) { return ValueAt(previous, i); }, "ring");
    });
  });
}

}  // namespace
}  // namespace lockstep::collective
