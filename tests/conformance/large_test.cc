// More than 2 GiB in one operation: no count, offset or size is 32 bits wide anywhere. Every byte
// is looked at. Two ranks with one tensor each, about 7 GiB at most.
#include <algorithm>
#include <array>
#include <string>

#include "tests/conformance/conformance_test.h"
#include "tests/support/shared_memory.h"

namespace lockstep::collective {
namespace {

constexpr size_t kCount = (size_t{1} << 31) + 4097;
constexpr int64_t kSmallPart = 1000;

// A byte's value depends on its page's number, its place in the page and its rank: two bytes whose
// distance may be mistaken for another one, such as 2^31 or 2^32, differ. It is computed from two
// bytes, so that the compiler makes vectors of the loops.
constexpr size_t kPage = 4096;
constexpr std::array<uint8_t, kPage> kLow = [] {
  std::array<uint8_t, kPage> low{};
  for (size_t i = 0; i < kPage; ++i) low[i] = static_cast<uint8_t>(i ^ (i >> 8) * 29);
  return low;
}();
uint8_t HighOf(size_t page) {
  return static_cast<uint8_t>(page ^ (page >> 8) * 5 ^ (page >> 16) * 37 ^ (page >> 19) * 11);
}

// What rank `rank` has.
auto Of(int rank) {
  const auto shift = static_cast<uint8_t>(rank * 101);
  return [shift](uint8_t high, uint8_t low) {
    return static_cast<uint8_t>(static_cast<uint8_t>(high ^ low) + shift);
  };
}
// The sum over both ranks.
uint8_t Sum(uint8_t high, uint8_t low) {
  return static_cast<uint8_t>(Of(0)(high, low) + Of(1)(high, low));
}

// Calls `visit(from, to, high)` for the pages, or parts of pages, from `begin` to `end`.
template <typename Visit>
void ForEachPage(size_t begin, size_t end, Visit visit) {
  while (begin < end) {
    const size_t page = begin / kPage;
    const size_t to = std::min((page + 1) * kPage, end);
    visit(begin, to, HighOf(page));
    begin = to;
  }
}

void Fill(uint8_t* bytes, size_t begin, size_t end, int rank) {
  const auto value = Of(rank);
  ForEachPage(begin, end, [&](size_t from, size_t to, uint8_t high) {
    const uint8_t* low = kLow.data() + from % kPage;
    for (size_t i = 0; i < to - from; ++i) bytes[from + i] = value(high, low[i]);
  });
}

template <typename Expected>
void Expect(const uint8_t* bytes, size_t begin, size_t end, Expected expected, const char* what) {
  size_t wrong_pages = 0;
  ForEachPage(begin, end, [&](size_t from, size_t to, uint8_t high) {
    const uint8_t* low = kLow.data() + from % kPage;
    uint8_t differences = 0;
    for (size_t i = 0; i < to - from; ++i) {
      differences |= static_cast<uint8_t>(bytes[from + i] ^ expected(high, low[i]));
    }
    if (differences != 0 && wrong_pages++ == 0) {
      ADD_FAILURE() << what << " is wrong between " << from << " and " << to;
    }
  });
  EXPECT_EQ(wrong_pages, 0u) << what;
}

// The operations, on this rank's `bytes`, which lie in its arena or (staged) on the heap.
class LargeOperations {
 public:
  LargeOperations(RankUnderTest& self, uint8_t* bytes)
      : comm_(self.comm), rank_(self.rank()), bytes_(bytes), all_(ViewOf(bytes, kCount)) {}

  void AllReduce() {
    Fill(bytes_, 0, kCount, rank_);
    ExpectOk(comm_.AllReduce(all_, all_, ReduceOp::kSum, Patience()));
    Expect(bytes_, 0, kCount, Sum, "allreduce");
  }

  void Broadcast() {
    Fill(bytes_, 0, kCount, rank_);
    ExpectOk(comm_.Broadcast(rank_ == 1 ? ConstBuffer(all_) : ConstBuffer(), all_, 1, Patience()));
    Expect(bytes_, 0, kCount, Of(1), "broadcast");
  }

  void Message() {
    Fill(bytes_, 0, kCount, rank_);
    ExpectOk(rank_ == 1 ? comm_.Send(all_, 0, Patience()) : comm_.Recv(all_, 1, Patience()));
    Expect(bytes_, 0, kCount, Of(1), "message");
  }

  // One part is nearly everything.
  void AllGather() {
    Fill(bytes_, Begin(), End(), rank_);
    ExpectOk(comm_.AllGather(Own(), all_, counts_, Patience()));
    Expect(bytes_, 0, kSmallPart, Of(0), "the small part of an allgather");
    Expect(bytes_, kSmallPart, kCount, Of(1), "the large part of an allgather");
  }

  void ReduceScatter() {
    Fill(bytes_, 0, kCount, rank_);
    ExpectOk(comm_.ReduceScatter(all_, Own(), counts_, ReduceOp::kSum, Patience()));
    Expect(bytes_, Begin(), End(), Sum, "reduce-scatter");
    Expect(bytes_, 0, Begin(), Of(rank_), "what lies before the part of a reduce-scatter");
    Expect(bytes_, End(), kCount, Of(rank_), "what lies behind the part of a reduce-scatter");
  }

 private:
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status; }
  size_t Begin() const { return rank_ == 0 ? 0 : kSmallPart; }
  size_t End() const { return rank_ == 0 ? kSmallPart : kCount; }
  Buffer Own() const { return ViewOf(bytes_ + Begin(), End() - Begin()); }

  Communicator& comm_;
  const int rank_;
  uint8_t* const bytes_;
  const Buffer all_;
  const std::vector<int64_t> counts_ = {kSmallPart, static_cast<int64_t>(kCount) - kSmallPart};
};

TEST(LargeTest, OperationsBeyondTwoGiB) {
  if (const std::string reason = LacksSharedMemory(7); !reason.empty()) GTEST_SKIP() << reason;
  // By threads: sizes are computed with processes as with threads.
  const BackendUnderTest& backend = Backends().front();
  backend.run(2, [](RankUnderTest& self) {
    {
      TestBuffer memory(&self.allocator, DType::kUInt8, kCount);
      ASSERT_EQ(memory.buffer().count, kCount);
      LargeOperations operations(self, static_cast<uint8_t*>(memory.buffer().data));
      operations.AllReduce();
      operations.Broadcast();
      operations.Message();
      operations.AllGather();
      operations.ReduceScatter();
    }
    // Now rank 1's lies where the backend does not reach it, and is copied in pieces.
    TestBuffer memory(self.rank() == 0 ? &self.allocator : nullptr, DType::kUInt8, kCount);
    ASSERT_EQ(memory.buffer().count, kCount);
    LargeOperations operations(self, static_cast<uint8_t*>(memory.buffer().data));
    operations.AllReduce();
    operations.Message();
  });
}

}  // namespace
}  // namespace lockstep::collective
