#include "runtime/plan/known_programs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "runtime/plan/recently_used.h"

namespace lockstep::plan {
namespace {

// Not made by a hash: keys are what the test likes.
EncodedProgram Made(uint64_t key, uint64_t content, size_t words = 10) {
  return {{key, key}, std::make_shared<const std::vector<uint64_t>>(words, content)};
}

TEST(KnownProgramsTest, WhatWasBoundIsKnownByItsKey) {
  KnownPrograms known;
  EXPECT_FALSE(known.Has(Made(1, 1)));
  known.NoteBound(Made(1, 1));
  EXPECT_TRUE(known.Has(Made(1, 1)));
  ASSERT_NE(known.Find({1, 1}), nullptr);
  EXPECT_EQ(*known.Find({1, 1}), Made(1, 1));
  EXPECT_EQ(known.Find({1, 2}), nullptr);
  EXPECT_EQ(known.bytes(), 80u);
  known.Clear();
  EXPECT_FALSE(known.Has(Made(1, 1)));
  EXPECT_EQ(known.bytes(), 0u);
}

TEST(KnownProgramsTest, OfTwoProgramsOfOneKeyTheLastIsKnown) {
  KnownPrograms known;
  known.NoteBound(Made(1, 1));
  EXPECT_FALSE(known.Has(Made(1, 2)));
  EXPECT_FALSE(known.Has(Made(1, 1, 11)));
  known.NoteBound(Made(1, 2));
  EXPECT_FALSE(known.Has(Made(1, 1)));
  EXPECT_TRUE(known.Has(Made(1, 2)));
  EXPECT_EQ(known.bytes(), 80u);
}

TEST(KnownProgramsTest, WhatWasNotBoundForLongestGoesFirst) {
  KnownPrograms known;
  for (uint64_t i = 0; i < KnownPrograms::kMaxPrograms; ++i) known.NoteBound(Made(i, i));
  known.NoteBound(Made(0, 0));
  known.NoteBound(Made(1000, 0));
  EXPECT_TRUE(known.Has(Made(0, 0)));
  EXPECT_FALSE(known.Has(Made(1, 1)));
  EXPECT_TRUE(known.Has(Made(2, 2)));
}

TEST(KnownProgramsTest, BytesAreBounded) {
  constexpr size_t kHalf = KnownPrograms::kMaxBytes / sizeof(uint64_t) / 2;
  KnownPrograms known;
  known.NoteBound(Made(1, 1, kHalf));
  known.NoteBound(Made(2, 2, kHalf));
  EXPECT_TRUE(known.Has(Made(1, 1, kHalf)));
  known.NoteBound(Made(3, 3));
  EXPECT_FALSE(known.Has(Made(1, 1, kHalf)));
  EXPECT_TRUE(known.Has(Made(2, 2, kHalf)));
  known.NoteBound(Made(4, 4, 2 * kHalf + 1));
  EXPECT_FALSE(known.Has(Made(4, 4, 2 * kHalf + 1))) << "too large to be kept";
  EXPECT_TRUE(known.Has(Made(3, 3))) << "and for nothing would the others go";
}

// One side decides what it sends by what it has noted; the other notes what it finds or is sent.
TEST(KnownProgramsTest, BothSidesAlwaysKnowTheSame) {
  std::mt19937_64 random(7);  // NOLINT: the same each time
  KnownPrograms client;
  KnownPrograms worker;
  int sent_whole = 0;
  int sent_as_key = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 500 == 0) {
      client.Clear();
      worker.Clear();
    }
    // Among 100 programs, of which some have one key, and some are large.
    const uint64_t number = random() % 100;
    const EncodedProgram bound = Made(number % 90, number, number % 7 == 0 ? 100'000 : 100);
    if (client.Has(bound)) {
      const EncodedProgram* const found = worker.Find(bound.key);
      ASSERT_NE(found, nullptr) << "program " << number << " in round " << i;
      ASSERT_EQ(*found, bound) << "in round " << i;
      worker.NoteBound(*found);
      ++sent_as_key;
    } else {
      worker.NoteBound(bound);
      ++sent_whole;
    }
    client.NoteBound(bound);
    ASSERT_EQ(client.bytes(), worker.bytes());
    ASSERT_LE(client.bytes(), KnownPrograms::kMaxBytes);
  }
  EXPECT_GT(sent_as_key, 5'000);
  EXPECT_GT(sent_whole, 5'000);
}

TEST(RecentlyUsedTest, UsesAreCounted) {
  RecentlyUsed<int> cache({2, 100});
  const auto is = [](int wanted) { return [wanted](int entry) { return entry == wanted; }; };
  EXPECT_EQ(cache.Use(is(1)), nullptr);
  cache.Add(1, 10);
  cache.Add(2, 20);
  ASSERT_NE(cache.Use(is(1)), nullptr);
  cache.Add(3, 30);
  EXPECT_EQ(cache.Find(is(2)), nullptr) << "1 was used after it";
  EXPECT_EQ(cache.use().hits, 1u);
  EXPECT_EQ(cache.use().misses, 1u);
  EXPECT_EQ(cache.use().evictions, 1u);
  EXPECT_EQ(cache.use().entries, 2u);
  EXPECT_EQ(cache.use().bytes, 40u);
  cache.Add(4, 100);
  EXPECT_EQ(cache.use().entries, 1u);
  EXPECT_EQ(cache.use().evictions, 3u);
  cache.Remove(is(4));
  EXPECT_EQ(cache.use().bytes, 0u);
  EXPECT_EQ(cache.use().evictions, 3u) << "not for want of room";
}

}  // namespace
}  // namespace lockstep::plan
