#include "runtime/base/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/base/random.h"
#include "tests/support/shared_memory.h"

namespace lockstep {
namespace {

class PrefaultTest : public testing::Test {
 protected:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kSize = size_t{8} << 20;

  void SetUp() override {
    if (const std::string lacks = LacksPrefault(); !lacks.empty()) GTEST_SKIP() << lacks;
    const std::string name = std::string(SharedSegment::kNamePrefix) + "prefault-" + RandomHex(8);
    auto owner = SharedSegment::Create(name, kSize);
    ASSERT_TRUE(owner.ok()) << owner.status();
    owner_ = *std::move(owner);
    ASSERT_EQ(owner_->Reserve(kSize), OkStatus());
    auto mapped = SharedSegment::Open(name);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    segment_ = *std::move(mapped);
  }
  // How many pages of [begin, end) this process has mapped.
  size_t CountMapped(size_t begin, size_t end) const {
    const int64_t pages = CountMappedPages(segment_->data() + begin, end - begin);
    EXPECT_GE(pages, 0);
    return static_cast<size_t>(pages);
  }

  std::unique_ptr<SharedSegment> owner_;
  std::shared_ptr<const SharedSegment> segment_;
};

TEST_F(PrefaultTest, PagesAreMappedAndKeepTheirContents) {
  std::memset(owner_->data(), 7, kSize);
  Prefault prefault;
  prefault.Now(segment_, segment_->data() + 64, kSize / 2 - 64);
  EXPECT_EQ(CountMapped(0, kSize / 2), kSize / 2 / kPage);
  EXPECT_EQ(CountMapped(kSize / 2, kSize), 0u);
  EXPECT_EQ(std::memcmp(segment_->data(), owner_->data(), kSize), 0);
}

TEST_F(PrefaultTest, SmallTensorsAreLeftToTheirFaults) {
  Prefault prefault;
  prefault.Now(segment_, segment_->data(), 16 * kPage);
  EXPECT_EQ(CountMapped(0, kSize), 0u);
}

TEST_F(PrefaultTest, WhatAThreadMapsIsMappedInTheEnd) {
  Prefault prefault;
  for (const size_t begin : {size_t{0}, kSize / 2, size_t{0}}) {
    prefault.InBackground(segment_, segment_->data() + begin, kSize / 2);
  }
  while (CountMapped(0, kSize) < kSize / kPage) usleep(100);
}

TEST_F(PrefaultTest, WhatWaitsIsGivenUpAtTheEnd) {
  {
    Prefault prefault;
    prefault.InBackground(segment_, segment_->data(), kSize);
  }
  std::memset(segment_->data(), 3, kSize);
  EXPECT_EQ(std::memcmp(segment_->data(), owner_->data(), kSize), 0);
}

// Tensors that begin and end within what is known as one are asked for once, too.
TEST_F(PrefaultTest, NoPageIsAskedForTwice) {
  const size_t begin = 3 * kPage + 64;
  const size_t end = kSize / 2 - kPage - 64;
  Prefault prefault;
  prefault.Now(segment_, segment_->data() + begin, end - begin);
  EXPECT_EQ(CountMapped(0, 3 * kPage), 0u);
  EXPECT_EQ(CountMapped(3 * kPage, kSize / 2 - kPage), kSize / 2 / kPage - 4);
  EXPECT_EQ(CountMapped(kSize / 2 - kPage, kSize), 0u);
  // Unmapped behind its back, they would be mapped if they were asked for.
  ASSERT_EQ(madvise(segment_->data(), kSize, MADV_DONTNEED), 0);
  prefault.Now(segment_, segment_->data() + begin, end - begin);
  EXPECT_EQ(CountMapped(0, kSize), 0u);
  // What is next to it was not.
  prefault.Now(segment_, segment_->data() + end, kSize - end);
  EXPECT_EQ(CountMapped(0, kSize / 2 - 2 * kPage), 0u);
  EXPECT_EQ(CountMapped(kSize / 2 - kPage, kSize), kSize / 2 / kPage + 1);
}

}  // namespace
}  // namespace lockstep
