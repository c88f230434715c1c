#include "runtime/collective/shm/directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::collective::shm {
namespace {

constexpr size_t kControlBytes = 256 << 10;
constexpr size_t kBlockBytes = 9 << 10;

class DirectoryTest : public testing::Test {
 protected:
  struct alignas(64) Area {
    std::byte bytes[kControlBytes] = {};
  };
  DirectoryTest() : area_(std::make_unique<Area>()), directory_(area_->bytes) {
    EXPECT_FALSE(directory_.IsReady());
    directory_.Initialise(kControlBytes, 42);
  }

  // Opens entries until there is no room; returns them.
  std::vector<Directory::Found> Fill() {
    std::vector<Directory::Found> all;
    for (uint64_t key = 1000;; ++key) {
      const auto found = directory_.Open(key, kBlockBytes);
      if (!found.ok()) {
        EXPECT_EQ(found.status().code(), StatusCode::kResourceExhausted);
        return all;
      }
      all.push_back(*found);
    }
  }

  std::unique_ptr<Area> area_;
  Directory directory_;
};

TEST_F(DirectoryTest, SaysWhoseItIs) {
  EXPECT_TRUE(directory_.IsReady());
  EXPECT_EQ(directory_.process(), 42u);
  // Not again: blocks may be open already.
  directory_.Initialise(kControlBytes, 43);
  EXPECT_EQ(directory_.process(), 42u);
}

// While there are such, a rank that finds no room waits for it.
TEST_F(DirectoryTest, CountsWhatOthersHaveYetToClose) {
  const auto opened = directory_.Open(7, kBlockBytes);
  ASSERT_TRUE(opened.ok() && directory_.Find(7).has_value());
  EXPECT_EQ(directory_.CountGivenUp(), 0);
  directory_.CloseAsOwner(opened->entry);
  EXPECT_EQ(directory_.CountGivenUp(), 1);
  directory_.Close(opened->entry);
  EXPECT_EQ(directory_.CountGivenUp(), 0);
  // The other way round, the room waits for the owner.
  const auto again = directory_.Open(8, kBlockBytes);
  ASSERT_TRUE(again.ok() && directory_.Find(8).has_value());
  directory_.Close(again->entry);
  EXPECT_EQ(directory_.CountGivenUp(), 0);
}

TEST_F(DirectoryTest, FindsWhatIsOpenAndNothingElse) {
  EXPECT_FALSE(directory_.Find(7).has_value());
  const auto opened = directory_.Open(7, kBlockBytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto found = directory_.Find(7);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->block, opened->block);
  EXPECT_EQ(found->entry, opened->entry);
  EXPECT_FALSE(directory_.Find(8).has_value());
}

TEST_F(DirectoryTest, BlocksDoNotOverlapAndAreZero) {
  std::vector<std::byte*> blocks;
  for (const Directory::Found& found : Fill()) {
    for (size_t i = 0; i < kBlockBytes; ++i) ASSERT_EQ(found.block[i], std::byte{0});
    std::fill_n(found.block, kBlockBytes, std::byte{0xff});
    blocks.push_back(found.block);
  }
  EXPECT_GE(blocks.size(), kControlBytes / kBlockBytes - 2);
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    EXPECT_LE(blocks[i] + kBlockBytes, blocks[i + 1]);
  }
  EXPECT_LE(blocks.back() + kBlockBytes, area_->bytes + kControlBytes);
}

TEST_F(DirectoryTest, ABlockIsUsedAgainWhenAllThatFoundItHaveClosedIt) {
  const auto opened = directory_.Open(7, kBlockBytes);
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(directory_.Find(7).has_value());
  Fill();
  directory_.Close(opened->entry);
  // Hidden from members that come now, and kept for the member that found it.
  EXPECT_FALSE(directory_.Find(7).has_value());
  EXPECT_FALSE(directory_.Open(8, kBlockBytes).ok());
  directory_.Close(opened->entry);
  const auto next = directory_.Open(8, kBlockBytes);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->block, opened->block);
}

TEST_F(DirectoryTest, WhoIsCountedInForAnotherKeepsTheBlock) {
  const auto opened = directory_.Open(7, kBlockBytes);
  ASSERT_TRUE(opened.ok());
  directory_.CountIn(opened->entry);
  Fill();
  directory_.Close(opened->entry);
  EXPECT_FALSE(directory_.Open(8, kBlockBytes).ok());
  directory_.Close(opened->entry);
  EXPECT_TRUE(directory_.Open(8, kBlockBytes).ok());
}

TEST_F(DirectoryTest, WhoNeverCameHoldsNothingUp) {
  for (uint64_t key = 1; key <= 1000; ++key) {
    const auto opened = directory_.Open(key, kBlockBytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    directory_.Close(opened->entry);
  }
}

// Finders race with an owner that turns the same entry over and over.
TEST_F(DirectoryTest, AFinderNeverGetsTheBlockOfAnotherKey) {
  constexpr uint64_t kRounds = 20'000;
  std::atomic<bool> over{false};
  std::atomic<uint64_t> newest{1};
  std::vector<std::thread> finders;
  for (int i = 0; i < 2; ++i) {
    finders.emplace_back([&] {
      Directory directory(area_->bytes);
      while (!over) {
        const uint64_t key = newest;
        const auto found = directory.Find(key);
        if (!found.has_value()) continue;
        // While it is counted in, the owner does not touch the block.
        const auto& mark = *reinterpret_cast<std::atomic<uint64_t>*>(found->block);
        const uint64_t seen = mark;
        EXPECT_TRUE(seen == key || seen == 0) << seen << " instead of " << key;
        directory.Close(found->entry);
      }
    });
  }
  for (uint64_t key = 1; key <= kRounds; ++key) {
    const auto opened = directory_.Open(key, kBlockBytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    *reinterpret_cast<std::atomic<uint64_t>*>(opened->block) = key;
    newest = key;
    directory_.Close(opened->entry);
  }
  over = true;
  for (std::thread& finder : finders) finder.join();
}

}  // namespace
}  // namespace lockstep::collective::shm
