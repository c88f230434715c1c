#include "runtime/tensor/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace lockstep::tensor {
namespace {

using Block = BlockPool::Block;

TEST(BlockPoolTest, RoundingUpWastesAtMostASixteenth) {
  EXPECT_EQ(BlockPool::RoundUp(0), BlockPool::kGranule);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const size_t size = random() >> (17 + random() % 47);  // all magnitudes up to 2^47
    const size_t rounded = BlockPool::RoundUp(size);
    ASSERT_GE(rounded, size);
    ASSERT_EQ(rounded % BlockPool::kGranule, 0u);
    ASSERT_LE(rounded, size + size / 16 + BlockPool::kGranule) << size;
    ASSERT_EQ(BlockPool::RoundUp(rounded), rounded) << "rounding is final";
  }
}

TEST(BlockPoolTest, EmptyPoolHasNothing) {
  BlockPool pool;
  EXPECT_EQ(pool.Allocate(1), nullptr);
  EXPECT_EQ(pool.MissingFor(1), BlockPool::kGranule);
  EXPECT_TRUE(pool.CheckConsistency());
}

TEST(BlockPoolTest, ExtendingByWhatIsMissingIsEnough) {
  for (const size_t size : {size_t{1}, size_t{64}, size_t{5000}, size_t{1} << 30}) {
    BlockPool pool;
    pool.Extend(1024);
    Block* first = pool.Allocate(512);
    ASSERT_NE(first, nullptr);
    const size_t missing = pool.MissingFor(size);
    if (missing > 0) {
      EXPECT_EQ(pool.Allocate(size), nullptr);
      pool.Extend(missing);
    }
    Block* block = pool.Allocate(size);
    ASSERT_NE(block, nullptr) << size;
    EXPECT_GE(block->size, size);
    EXPECT_TRUE(pool.CheckConsistency());
  }
}

TEST(BlockPoolTest, ATightBlockTakesNoMoreThanItNeeds) {
  for (const size_t size : {size_t{1}, size_t{64}, size_t{5000}, (size_t{1} << 20) + 64}) {
    BlockPool pool;
    pool.Extend(256);
    const size_t missing = pool.MissingForTight(size);
    EXPECT_EQ(missing, size <= 256 ? 0 : (size + 63) / 64 * 64 - 256);
    if (missing > 0) {
      EXPECT_EQ(pool.AllocateTight(size), nullptr);
      pool.Extend(missing);
    }
    Block* block = pool.AllocateTight(size);
    ASSERT_NE(block, nullptr) << size;
    EXPECT_EQ(block->size, (size + 63) / 64 * 64);
    EXPECT_TRUE(pool.CheckConsistency());
    pool.Free(block);
    EXPECT_TRUE(pool.CheckConsistency());
  }
}

TEST(BlockPoolTest, BlocksAreFoundByTheirBytes) {
  BlockPool pool;
  EXPECT_EQ(pool.Find(0), nullptr);
  pool.Extend(4096);
  Block* first = pool.Allocate(1024);
  Block* second = pool.Allocate(512);
  EXPECT_EQ(pool.Find(0), first);
  EXPECT_EQ(pool.Find(1023), first);
  EXPECT_EQ(pool.Find(1024), second);
  EXPECT_EQ(pool.Find(1536), nullptr) << "free";
  EXPECT_EQ(pool.Find(4096), nullptr) << "beyond the range";
  pool.Free(first);
  EXPECT_EQ(pool.Find(0), nullptr);
}

TEST(BlockPoolTest, FreedBlockIsReusedForTheSameSize) {
  BlockPool pool;
  pool.Extend(1 << 20);
  for (const size_t size : {64, 1000, 5000, 77777}) {
    Block* keep = pool.Allocate(64);
    Block* block = pool.Allocate(size);
    Block* fence = pool.Allocate(64);
    const size_t offset = block->offset;
    pool.Free(block);
    block = pool.Allocate(size);
    EXPECT_EQ(block->offset, offset) << "warm memory first";
    pool.Free(block);
    pool.Free(fence);
    pool.Free(keep);
  }
}

TEST(BlockPoolTest, NeighboursMergeInAnyOrderOfFreeing) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const std::vector<int>& order : orders) {
    BlockPool pool;
    pool.Extend(3 * 4096);
    std::vector<Block*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(pool.Allocate(4096));
    ASSERT_EQ(pool.Allocate(64), nullptr) << "full";
    for (const int i : order) {
      pool.Free(blocks[i]);
      ASSERT_TRUE(pool.CheckConsistency());
    }
    Block* whole = pool.Allocate(3 * 4096);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(whole->offset, 0u);
  }
}

TEST(BlockPoolTest, SmallestBlockThatFitsIsTaken) {
  BlockPool pool;
  pool.Extend(1 << 20);
  Block* small = pool.Allocate(2048);
  Block* fence = pool.Allocate(64);
  const size_t offset = small->offset;
  pool.Free(small);  // now free: 2048 bytes here, and most of the range behind the fence
  EXPECT_EQ(pool.Allocate(1024)->offset, offset);
  EXPECT_EQ(pool.Allocate(1024)->offset, offset + 1024);
  pool.Free(fence);
}

// Random sizes and lifetimes: live blocks never overlap, and in the end everything is one again.
TEST(BlockPoolTest, RandomUseKeepsBlocksApartAndLosesNothing) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 5; ++round) {
    BlockPool pool;
    pool.Extend(1 << 20);
    std::map<size_t, Block*> live;  // by offset
    for (int step = 0; step < 20000; ++step) {
      if (live.empty() || random() % 100 < 55) {
        const size_t size = random() >> (64 - 5 - random() % 12);
        Block* block = pool.Allocate(size);
        if (block == nullptr) {
          if (pool.range_bytes() > (size_t{64} << 20)) continue;
          pool.Extend(BlockPool::RoundUp(pool.MissingFor(size)));
          block = pool.Allocate(size);
          ASSERT_NE(block, nullptr);
        }
        ASSERT_GE(block->size, size);
        const auto next = live.lower_bound(block->offset);
        if (next != live.end()) {
          ASSERT_LE(block->offset + block->size, next->second->offset);
        }
        if (next != live.begin()) {
          const Block* before = std::prev(next)->second;
          ASSERT_LE(before->offset + before->size, block->offset);
        }
        ASSERT_LE(block->offset + block->size, pool.range_bytes());
        live.emplace(block->offset, block);
      } else {
        auto victim = live.begin();
        std::advance(victim, random() % live.size());
        pool.Free(victim->second);
        live.erase(victim);
      }
      if (step % 1000 == 0) {
        ASSERT_TRUE(pool.CheckConsistency());
      }
      ASSERT_EQ(pool.live_blocks(), live.size());
    }
    for (const auto& [offset, block] : live) pool.Free(block);
    ASSERT_TRUE(pool.CheckConsistency());
    EXPECT_EQ(pool.live_bytes(), 0u);
    EXPECT_EQ(pool.MissingFor(pool.range_bytes() / 2), 0u) << "one free block is left";
  }
}

// A training loop's pattern: the same sizes again and again. The range must stop growing.
TEST(BlockPoolTest, SteadyStateNeedsNoMoreMemory) {
  BlockPool pool;
  std::mt19937_64 random(3);
  std::vector<size_t> sizes;
  for (int i = 0; i < 50; ++i) sizes.push_back(1 + random() % 3000000);
  size_t after_first = 0;
  for (int step = 0; step < 100; ++step) {
    std::vector<Block*> blocks;
    for (const size_t size : sizes) {
      Block* block = pool.Allocate(size);
      if (block == nullptr) {
        pool.Extend(pool.MissingFor(size));
        block = pool.Allocate(size);
      }
      blocks.push_back(block);
      if (blocks.size() % 3 == 0) {
        pool.Free(blocks[blocks.size() / 2]);
        blocks[blocks.size() / 2] = blocks.back();
        blocks.pop_back();
      }
    }
    for (Block* block : blocks) pool.Free(block);
    if (step == 0) after_first = pool.range_bytes();
  }
  EXPECT_EQ(pool.range_bytes(), after_first);
}

}  // namespace
}  // namespace lockstep::tensor
