#include "services/worker/execute/communicator_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

constexpr int kMax = CommunicatorCache::kMaxTeamsOfARank;

TeamName Team(std::vector<Rank> ranks) { return {TeamName::Kind::kTeam, std::move(ranks)}; }

// One rank's cache, which is asked as SessionState asks it.
class Cache {
 public:
  explicit Cache(Rank rank) : rank_(rank) {}

  // The serial number of `name`.
  uint32_t Use(const TeamName& name) {
    CommunicatorCache::Evicted evicted;
    CommunicatorCache::Entry& entry = cache_.Use(name, &evicted);
    const bool is_member = name.kind != TeamName::Kind::kTeam ||
                           std::count(name.ranks.begin(), name.ranks.end(), rank_) > 0;
    if (is_member && entry.communicators.cpus == nullptr) {
      entry.communicators.cpus = std::make_shared<FakeCommunicator>(log_);
    }
    return entry.serial;
  }
  int live() const { return log_.live; }
  CommunicatorCache& operator*() { return cache_; }

 private:
  const Rank rank_;
  FakeCommunicator::Log log_;
  CommunicatorCache cache_;
};

TEST(CommunicatorCacheTest, TheTeamNotUsedForLongestGoes) {
  Cache cache(0);
  std::vector<uint32_t> serials(kMax + 1);
  for (Rank r = 1; r <= kMax; ++r) serials[static_cast<size_t>(r)] = cache.Use(Team({0, r}));
  EXPECT_EQ(cache.Use(Team({0, 1})), serials[1]);  // used again: 2 is the oldest
  cache.Use(Team({0, 100}));
  EXPECT_EQ(cache.live(), kMax);
  EXPECT_EQ(cache.Use(Team({0, 1})), serials[1]);
  EXPECT_EQ(cache.Use(Team({0, 3})), serials[3]);
  EXPECT_NE(cache.Use(Team({0, 2})), serials[2]);
}

TEST(CommunicatorCacheTest, TeamsWithoutARankInCommonDoNotMindEachOther) {
  Cache cache(0);
  const uint32_t serial = cache.Use(Team({0, 1}));
  for (Rank r = 0; r < 10 * kMax; ++r) cache.Use(Team({2, 10 + r}));
  EXPECT_EQ(cache.Use(Team({0, 1})), serial);
}

TEST(CommunicatorCacheTest, WorldAndGroupsStay) {
  Cache cache(0);
  const uint32_t world = cache.Use({TeamName::Kind::kWorld});
  const uint32_t groups = cache.Use({TeamName::Kind::kGroups});
  EXPECT_NE(world, groups);
  for (Rank r = 1; r < 4 * kMax; ++r) cache.Use(Team({0, r}));
  EXPECT_EQ(cache.Use({TeamName::Kind::kWorld}), world);
  EXPECT_EQ(cache.Use({TeamName::Kind::kGroups}), groups);
  EXPECT_EQ(cache.live(), kMax + 2);
}

TEST(CommunicatorCacheTest, OrderOfRanksTellsTeamsApart) {
  Cache cache(0);
  EXPECT_NE(cache.Use(Team({0, 1})), cache.Use(Team({1, 0})));
}

TEST(CommunicatorCacheTest, NumbersBeginAnewWithANewOne) {
  Cache cache(0);
  const uint32_t first = cache.Use(Team({0, 1}));
  cache.Use(Team({0, 2}));
  {
    CommunicatorCache old;
    std::swap(*cache, old);
  }
  EXPECT_EQ(cache.live(), 0);
  EXPECT_EQ(cache.Use(Team({0, 2})), first);
  for (Rank r = 1; r < 3 * kMax; ++r) cache.Use(Team({0, r}));
  EXPECT_EQ(cache.live(), kMax);
}

// What makes it work without a word between ranks: members or not, all keep and number alike.
TEST(CommunicatorCacheTest, AllRanksDecideAlikeAndWithinBounds) {
  constexpr Rank kRanks = 8;
  std::deque<Cache> caches;
  for (Rank r = 0; r < kRanks; ++r) caches.emplace_back(r);
  std::mt19937 random(11);
  std::set<std::pair<std::vector<Rank>, uint32_t>> made;
  for (int step = 0; step < 3000; ++step) {
    std::vector<Rank> ranks;
    while (ranks.empty()) {
      for (Rank r = 0; r < kRanks; ++r) {
        if (random() % 3 == 0) ranks.push_back(r);
      }
    }
    const uint32_t serial = caches[0].Use(Team(ranks));
    for (Rank r = 1; r < kRanks; ++r)
      ASSERT_EQ(caches[static_cast<size_t>(r)].Use(Team(ranks)), serial);
    made.emplace(ranks, serial);
    for (const Cache& cache : caches) ASSERT_LE(cache.live(), kMax);
  }
  EXPECT_GT(made.size(), 300u) << "teams came and went";
}

}  // namespace
}  // namespace lockstep::worker
