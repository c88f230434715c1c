#include "runtime/collective/shm/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/collective/groups.h"
#include "tests/unit/runtime/collective/shm/teams.h"

namespace lockstep::collective::shm {
namespace {

constexpr Call kAllGather = {.kind = Kind::kAllGather, .dtype = DType::kUInt8};

using Bytes = std::vector<uint8_t>;

TEST(WindowTest, CountsWhatOfAPartLiesInIt) {
  const Window window{10, 20};
  EXPECT_EQ(window.CountOf(5), 0u);
  EXPECT_EQ(window.CountOf(10), 0u);
  EXPECT_EQ(window.CountOf(13), 3u);
  EXPECT_EQ(window.CountOf(20), 10u);
  EXPECT_EQ(window.CountOf(1000), 10u);
}

// Both ranks send `size` bytes, the first from `first`. Returns the windows that rank 1 saw, in
// which it looked at all bytes of rank 0.
std::vector<Window> WindowsOf(Teams& teams, uint8_t* first, size_t size) {
  const auto count = static_cast<int64_t>(size);
  for (size_t i = 0; i < size; ++i) first[i] = static_cast<uint8_t>(i * 7 + i / 256);
  const Bytes expected(first, first + size);
  std::vector<Window> windows;
  teams.OnEveryRank([&](int rank) {
    auto storage = teams.arena(1).Allocate(size);
    ASSERT_TRUE(storage.ok()) << storage.status();
    auto* data = rank == 0 ? first : static_cast<uint8_t*>((*storage)->data());
    Exchange x(teams[rank], kAllGather, ViewOf(data, size), Counts(&count, 1), {});
    x.Compare(size);
    ASSERT_TRUE(x.Begin(Patience()).ok());
    const Status status = x.ForEachWindow(
        size,
        [&](const Window& window) {
          if (rank == 0) return;
          windows.push_back(window);
          const auto* theirs = reinterpret_cast<const uint8_t*>(x.Source(0, 0, 0, window));
          EXPECT_EQ(std::memcmp(theirs, expected.data() + window.begin, window.end - window.begin),
                    0);
        },
        Patience());
    EXPECT_TRUE(status.ok()) << status;
  });
  return windows;
}

TEST(ExchangeTest, SmallDataRidesAlongInOneWindow) {
  Teams teams(2);
  for (const size_t size : {size_t{1}, kInlineBytes, kInlineBytes + 1, kFlatBytes}) {
    Bytes data(size);
    const auto windows = WindowsOf(teams, data.data(), size);
    ASSERT_EQ(windows.size(), 1u);
    EXPECT_EQ(windows[0].end, size);
  }
}

TEST(ExchangeTest, WhatLiesInTheArenaIsReadInOneWindow) {
  Teams teams(2);
  const size_t size = size_t{9} << 20;
  const auto storage = *teams.arena(0).Allocate(size);
  const auto windows = WindowsOf(teams, static_cast<uint8_t*>(storage->data()), size);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].end, size);
}

TEST(ExchangeTest, WhatLiesOutsideIsCopiedThroughTheArenaWindowByWindow) {
  Teams teams(2);
  const size_t size = (size_t{9} << 20) + 1;
  Bytes data(size);
  const auto windows = WindowsOf(teams, data.data(), size);
  ASSERT_EQ(windows.size(), 3u);
  size_t end = 0;
  for (const Window& window : windows) {
    EXPECT_EQ(window.begin, end);
    EXPECT_LE(window.end - window.begin, size_t{4} << 20);
    end = window.end;
  }
  EXPECT_EQ(end, size);
  EXPECT_EQ(teams.arena(0).Stats().live_blocks, 0u) << "what it was copied through is returned";
}

TEST(ExchangeTest, PeersWriteToWhatIsOfferedWhereverItLies) {
  Teams teams(2);
  constexpr size_t kSize = 100'000;
  const auto inside = *teams.arena(0).Allocate(kSize);
  Bytes outside(kSize);
  for (uint8_t* recv : {static_cast<uint8_t*>(inside->data()), outside.data()}) {
    teams.OnEveryRank([&](int rank) {
      Exchange x(teams[rank], kAllGather, {}, {}, rank == 0 ? ViewOf(recv, kSize) : Buffer());
      if (rank == 0) x.OfferRecvAnywhere();
      ASSERT_TRUE(x.Begin(Patience()).ok());
      EXPECT_TRUE(x.touches());
      const Status status = x.ForEachWindow(
          kSize,
          [&](const Window& window) {
            if (rank == 1) std::memset(x.Destination(0, 0, window), 5, window.end - window.begin);
          },
          Patience());
      EXPECT_TRUE(status.ok()) << status;
    });
    EXPECT_EQ(Bytes(recv, recv + kSize), Bytes(kSize, 5));
  }
}

// Rank 0's result lies outside of its arena: nobody but itself writes to what it is staged in.
TEST(ExchangeTest, SlicesAreCollectedFromTheRanksThatHaveComputedThem) {
  Teams teams(3);
  constexpr size_t kSize = 5'000'000;  // several windows
  Bytes outside(kSize);
  std::vector<std::shared_ptr<tensor::Storage>> inside;
  for (int rank = 0; rank < 3; ++rank) inside.push_back(*teams.arena(rank).Allocate(kSize));
  teams.OnEveryRank([&](int rank) {
    const auto at = static_cast<size_t>(rank);
    Buffer recv = ViewOf(static_cast<uint8_t*>(inside[at]->data()), kSize);
    if (rank == 0) recv.data = outside.data();
    Exchange x(teams[rank], kAllGather, {}, {}, recv);
    x.OfferRecvAnywhere();
    x.CollectSlices();
    ASSERT_TRUE(x.Begin(Patience()).ok());
    EXPECT_TRUE(x.StagesRecv(0));
    EXPECT_FALSE(x.StagesRecv(1));
    const Status status = x.ForEachWindow(
        kSize,
        [&](const Window& window) {
          const Slice slice = SliceOf(window.end - window.begin, 1, rank, 3);
          for (int r = 0; r < 3; ++r) {
            if (r != rank && x.StagesRecv(r)) continue;
            std::memset(x.Destination(r, 0, window) + slice.begin, rank + 1, slice.count);
          }
        },
        Patience());
    EXPECT_TRUE(status.ok()) << status;
  });
  const auto* const theirs = static_cast<uint8_t*>(inside[1]->data());
  EXPECT_EQ(outside, Bytes(theirs, theirs + kSize));
  EXPECT_EQ(std::count(outside.begin(), outside.end(), 0), 0);
}

TEST(ExchangeTest, WhoCannotBeReachedIsKnownToAll) {
  Teams teams(2);
  constexpr size_t kSize = 100'000;
  Bytes outside(kSize);
  teams.OnEveryRank([&](int rank) {
    const auto storage = *teams.arena(rank).Allocate(kSize);
    Buffer recv = ViewOf(static_cast<uint8_t*>(storage->data()), kSize);
    if (rank == 0) recv.data = outside.data();
    Exchange x(teams[rank], kAllGather, {}, {}, recv);
    x.OfferRecv();
    ASSERT_TRUE(x.Begin(Patience()).ok());
    EXPECT_FALSE(x.all_reachable());
  });
}

TEST(ExchangeTest, CountsOfPartsAreCompared) {
  Teams teams(2);
  teams.OnEveryRank([&](int rank) {
    const int64_t counts[] = {rank == 0 ? 3 : 2, rank == 0 ? 2 : 3};
    Bytes part(static_cast<size_t>(counts[rank]));
    Exchange x(teams[rank], kAllGather, ViewOf(part.data(), part.size()), Counts(&counts[rank], 1),
               {});
    x.Compare(counts);
    const Status status = x.Begin(Patience());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_NE(Message(status).find("[3, 2]"), std::string::npos) << status;
    EXPECT_NE(Message(status).find("[2, 3]"), std::string::npos) << status;
  });
}

}  // namespace
}  // namespace lockstep::collective::shm
