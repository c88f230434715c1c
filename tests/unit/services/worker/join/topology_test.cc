#include "services/worker/join/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::worker {
namespace {

using testing::ElementsAre;

// Ranks map each other if they are on one host; hosts[r] is that of rank r.
std::vector<MappedRanks> MappedOf(const std::vector<int>& hosts) {
  std::vector<MappedRanks> mapped;
  for (const int from : hosts) {
    MappedRanks& one = mapped.emplace_back();
    for (const int to : hosts) {
      if (from != to && one.example < 0) {
        one.example = static_cast<Rank>(one.ranks.size());
        one.why = "it is elsewhere";
      }
      one.ranks.push_back(from == to);
    }
  }
  return mapped;
}

TEST(TopologyTest, WhatRanksTellIsReadAgain) {
  for (const std::string ranks : {"0", "1", "0000", "0110", "1011", "11111111", "10000001"}) {
    MappedRanks mapped;
    for (const char reached : ranks) mapped.ranks.push_back(reached == '1');
    mapped.example = static_cast<Rank>(ranks.find('0') == std::string::npos ? -1 : ranks.find('0'));
    mapped.why = "it is elsewhere, or gone";
    const auto read = FromText(ToText(mapped), ranks.size());
    ASSERT_TRUE(read.has_value()) << ToText(mapped);
    EXPECT_EQ(read->ranks, mapped.ranks) << ToText(mapped);
    EXPECT_EQ(read->example, mapped.example);
    EXPECT_EQ(read->why, mapped.why);
  }
  MappedRanks all{std::vector<bool>(4096, true), -1, ""};
  EXPECT_EQ(ToText(all), "0-4095 -1 ") << "however many there are";
}

TEST(TopologyTest, WhatMakesNoSenseIsNotRead) {
  for (const char* text : {"", "0-1", "0-4 -1 ", "2-1 -1 ", "-1 -1 ", "0, -1 ", "0-1,,3 -1 ",
                           "0x -1 ", "0-1 4 ", "0- -1 ", "99999999999 -1 "}) {
    EXPECT_FALSE(FromText(text, 4).has_value()) << text;
  }
}

TEST(TopologyTest, OneHostIsOneNode) {
  const Topology topology = DrawTopology(MappedOf({0, 0, 0}));
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_EQ(topology.why_apart, "");
}

TEST(TopologyTest, RanksNeedNotLieSideBySide) {
  const Topology topology = DrawTopology(MappedOf({0, 1, 0, 1, 2}));
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4)));
  EXPECT_THAT(topology.NodeOf(3), ElementsAre(1, 3));
  EXPECT_THAT(topology.ByRank(), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_EQ(topology.why_apart, "rank 0 cannot map the memory of rank 1: it is elsewhere");
}

TEST(TopologyTest, MappingInOneDirectionIsNotEnough) {
  std::vector<MappedRanks> mapped = MappedOf({0, 0});
  mapped[1] = {{false, true}, 0, "permission denied"};
  const Topology topology = DrawTopology(mapped);
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(topology.why_apart, "rank 1 cannot map the memory of rank 0: permission denied");
}

// 0 and 1 map each other, 1 and 2 too, but 0 and 2 do not.
TEST(TopologyTest, AllOfANodeReachEachOther) {
  std::vector<MappedRanks> mapped = MappedOf({0, 0, 0});
  mapped[0].ranks[2] = mapped[2].ranks[0] = false;
  EXPECT_THAT(DrawTopology(mapped).nodes, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

}  // namespace
}  // namespace lockstep::worker
