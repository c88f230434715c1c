#include "runtime/tensor/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shared_memory.h"

namespace lockstep::tensor {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

std::shared_ptr<Arena> NewArena(size_t capacity_bytes = 256 * kMegabyte,
                                size_t control_bytes = kMegabyte) {
  static int count = 0;
  auto arena =
      Arena::Create({.name = SharedSegment::kNamePrefix + std::string("arena-test-") +
                             std::to_string(std::random_device()()) + "-" + std::to_string(count++),
                     .capacity_bytes = capacity_bytes,
                     .control_bytes = control_bytes});
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

TEST(ArenaTest, ControlAreaIsAtTheStartAndZero) {
  const auto arena = NewArena();
  EXPECT_EQ(arena->control(), arena->base());
  EXPECT_EQ(arena->control_bytes(), kMegabyte);
  for (size_t i = 0; i < arena->control_bytes(); ++i) {
    ASSERT_EQ(arena->control()[i], std::byte{0});
  }
}

TEST(ArenaTest, StorageIsAlignedOutsideTheControlAreaAndInTheArena) {
  const auto arena = NewArena();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{5000}, 20 * kMegabyte}) {
    const auto storage = arena->Allocate(size);
    ASSERT_TRUE(storage.ok()) << storage.status();
    EXPECT_EQ((*storage)->size_bytes(), size);
    EXPECT_EQ((*storage)->device(), Device{});
    void* data = (*storage)->data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % Allocator::kAlignment, 0u);
    EXPECT_TRUE(arena->Contains(data));
    EXPECT_GE(arena->OffsetOf(data), arena->control_bytes());
    std::memset(data, 0xab, size);  // all of it is there
  }
}

TEST(ArenaTest, PeersSeeWhatIsWritten) {
  const auto arena = NewArena();
  const auto storage = *arena->Allocate(100);
  std::strcpy(static_cast<char*>(storage->data()), "for the peer");
  const auto peer = SharedSegment::Open(arena->name());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_STREQ(reinterpret_cast<const char*>((*peer)->data() + arena->OffsetOf(storage->data())),
               "for the peer");
}

TEST(ArenaTest, StartsSmallAndGrowsInSteps) {
  const auto arena = NewArena();
  EXPECT_EQ(arena->Stats().reserved_bytes, 4 * kMegabyte);
  const auto four = *arena->Allocate(4 * kMegabyte);
  const size_t grown = arena->Stats().reserved_bytes;
  EXPECT_GT(grown, 4 * kMegabyte);
  EXPECT_LE(grown, 16 * kMegabyte);
}

// The first access to each page would be a fault otherwise, which takes longer than to fill it.
TEST(ArenaTest, WhatItGrowsByIsMappedInTheBackground) {
  if (const std::string lacks = LacksPrefault(); !lacks.empty()) GTEST_SKIP() << lacks;
  const auto arena = NewArena();
  const auto large = arena->Allocate(32 * kMegabyte);
  ASSERT_TRUE(large.ok()) << large.status();
  // Behind what it has had from the start.
  const auto* const grown = static_cast<const std::byte*>((*large)->data()) + 4 * kMegabyte;
  constexpr int64_t kPages = 28 * kMegabyte / 4096;
  while (CountMappedPages(grown, 28 * kMegabyte) < kPages) usleep(100);
}

TEST(ArenaTest, WholeCapacityCanBeUsed) {
  const auto arena = NewArena(64 * kMegabyte);
  for (int round = 0; round < 2; ++round) {
    const auto all = arena->Allocate(63 * kMegabyte);
    ASSERT_TRUE(all.ok()) << all.status();
    std::memset((*all)->data(), 1, (*all)->size_bytes());
    EXPECT_FALSE(arena->Allocate(1).ok());
  }
}

TEST(ArenaTest, WhatIsLeftCanBeUsedToTheLastByte) {
  const auto arena = NewArena(64 * kMegabyte);
  for (const size_t size : {size_t{1}, size_t{5000}, 17 * kMegabyte + 1, 40 * kMegabyte}) {
    const auto first = arena->Allocate(size);
    ASSERT_TRUE(first.ok()) << first.status();
    const size_t left = 63 * kMegabyte - arena->Stats().live_bytes;
    EXPECT_FALSE(arena->Allocate(left + 1).ok());
    const auto second = arena->Allocate(left);
    ASSERT_TRUE(second.ok()) << size << ": " << second.status();
    std::memset((*second)->data(), 1, left);
  }
}

TEST(ArenaTest, WhatIsHeldBackIsNotHandedOutAgain) {
  const auto arena = NewArena(16 * kMegabyte);
  auto held = *arena->Allocate(10 * kMegabyte);
  const void* const data = held->data();
  bool first_writes = true;
  bool second_writes = true;
  // By any address inside, and for several reasons at once.
  arena->HoldBack(static_cast<const char*>(data) + 5000, [&] { return first_writes; });
  arena->HoldBack(data, [&] { return second_writes; });
  held.reset();
  EXPECT_FALSE(arena->Allocate(10 * kMegabyte).ok());
  const auto other = arena->Allocate(5 * kMegabyte);
  ASSERT_TRUE(other.ok()) << other.status();
  first_writes = false;
  EXPECT_FALSE(arena->Allocate(10 * kMegabyte).ok());
  EXPECT_EQ(arena->Stats().live_blocks, 2u);
  second_writes = false;
  const auto again = arena->Allocate(10 * kMegabyte);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->data(), data);
}

TEST(ArenaTest, WhatIsHeldBackAndStillInUseStaysItsOwners) {
  const auto arena = NewArena(16 * kMegabyte);
  auto owned = *arena->Allocate(10 * kMegabyte);
  arena->HoldBack(owned->data(), [] { return false; });
  arena->HoldBack(arena->base(), [] { return true; });  // the control area: nothing to hold
  EXPECT_FALSE(arena->Allocate(10 * kMegabyte).ok());
  EXPECT_EQ(arena->Stats().live_blocks, 1u);
  owned.reset();
  EXPECT_TRUE(arena->Allocate(10 * kMegabyte).ok());
}

TEST(ArenaTest, ExhaustionNamesTheSizes) {
  const auto arena = NewArena(8 * kMegabyte);
  const auto some = *arena->Allocate(4 * kMegabyte);
  const auto refused = arena->Allocate(5 * kMegabyte);
  ASSERT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  const std::string message = Message(refused.status());
  EXPECT_NE(message.find(arena->name()), std::string::npos) << message;
  EXPECT_NE(message.find("cannot allocate 5 MiB: "), std::string::npos) << message;
  EXPECT_NE(message.find("4 MiB are live in 1 blocks"), std::string::npos) << message;
  EXPECT_NE(message.find("7 MiB is the capacity"), std::string::npos) << message;
  EXPECT_NE(message.find("; free some registers, or raise the limit (arena_bytes, in the workers' "
                         "configuration or LocalClusterOptions)"),
            std::string::npos)
      << message;
  EXPECT_TRUE(arena->Allocate(kMegabyte).ok()) << "a refusal breaks nothing";
}

TEST(ArenaTest, AbsurdSizesAreExhaustedNotOverflowed) {
  const auto arena = NewArena();
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 63, size_t{1} << 63}) {
    EXPECT_EQ(arena->Allocate(size).status().code(), StatusCode::kResourceExhausted);
  }
}

TEST(ArenaTest, NoRoomBesideTheControlAreaIsInvalid) {
  const auto arena = Arena::Create({.name = SharedSegment::kNamePrefix + std::string("arena-none"),
                                    .capacity_bytes = kMegabyte,
                                    .control_bytes = kMegabyte});
  EXPECT_EQ(arena.status().code(), StatusCode::kInvalidArgument);
}

TEST(ArenaTest, StorageKeepsTheArenaAlive) {
  auto arena = NewArena();
  const std::string path = "/dev/shm/" + arena->name();
  auto storage = *arena->Allocate(4096);
  arena.reset();
  std::memset(storage->data(), 7, storage->size_bytes());
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  storage.reset();
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the last storage takes the arena along";
}

TEST(ArenaTest, StatsFollowTheBlocks) {
  const auto arena = NewArena();
  {
    const auto a = *arena->Allocate(1 << 10);
    const auto b = *arena->Allocate(1 << 20);
    const AllocatorStats stats = arena->Stats();
    EXPECT_EQ(stats.live_blocks, 2u);
    EXPECT_EQ(stats.live_bytes, (1u << 10) + (1u << 20));
    EXPECT_EQ(stats.allocations, 2u);
  }
  const AllocatorStats stats = arena->Stats();
  EXPECT_EQ(stats.live_blocks, 0u);
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.peak_bytes, (1u << 10) + (1u << 20));
  EXPECT_EQ(stats.allocations, 2u);
}

// Every storage carries its own pattern from birth to death; an overlap would break one.
TEST(ArenaTest, RandomUseNeverOverlapsAndReturnsAllMemory) {
  const auto arena = NewArena();
  struct Live {
    std::shared_ptr<Storage> storage;
    unsigned char pattern;
  };
  std::vector<Live> live;
  std::mt19937_64 random(11);
  const auto check = [](const Live& item) {
    const auto* bytes = static_cast<const unsigned char*>(item.storage->data());
    for (size_t i = 0; i < item.storage->size_bytes(); ++i) {
      if (bytes[i] != item.pattern) return false;
    }
    return true;
  };
  for (int step = 0; step < 5000; ++step) {
    if (live.empty() || (live.size() < 200 && random() % 100 < 55)) {
      const size_t size = random() >> (64 - 3 - random() % 16);
      auto storage = arena->Allocate(size);
      ASSERT_TRUE(storage.ok()) << storage.status();
      live.push_back({*std::move(storage), static_cast<unsigned char>(random())});
      std::memset(live.back().storage->data(), live.back().pattern, size);
    } else {
      const size_t victim = random() % live.size();
      ASSERT_TRUE(check(live[victim])) << "step " << step;
      std::swap(live[victim], live.back());
      live.pop_back();
    }
  }
  for (const Live& item : live) EXPECT_TRUE(check(item));
  live.clear();
  EXPECT_EQ(arena->Stats().live_bytes, 0u);
}

TEST(ArenaTest, ThreadsAllocateAndReleaseEachOthersStorage) {
  const auto arena = NewArena();
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::mutex mutex;
  std::vector<std::shared_ptr<Storage>> shared;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(static_cast<unsigned>(id));
      for (int round = 0; round < kRounds; ++round) {
        auto storage = arena->Allocate(1 + random() % 10000);
        ASSERT_TRUE(storage.ok());
        *static_cast<char*>((*storage)->data()) = static_cast<char>(id);
        std::shared_ptr<Storage> released;  // outside the lock
        const std::lock_guard<std::mutex> lock(mutex);
        shared.push_back(*std::move(storage));
        if (shared.size() > 50) {
          std::swap(shared[random() % shared.size()], shared.back());
          released = std::move(shared.back());
          shared.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena->Stats().allocations, static_cast<size_t>(kThreads * kRounds));
  EXPECT_EQ(arena->Stats().live_blocks, shared.size());
  shared.clear();
  EXPECT_EQ(arena->Stats().live_blocks, 0u);
}

}  // namespace
}  // namespace lockstep::tensor
