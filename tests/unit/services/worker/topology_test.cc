#include "services/worker/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::worker {
namespace {

using testing::ElementsAre;

// Ranks reach each other if they are on one host; hosts[r] is that of rank r.
std::vector<Reach> ReachOf(const std::vector<int>& hosts) {
  std::vector<Reach> reach;
  for (const int from : hosts) {
    Reach& one = reach.emplace_back();
    for (const int to : hosts) {
      if (from != to && one.example < 0) {
        one.example = static_cast<Rank>(one.ranks.size());
        one.why = "it is elsewhere";
      }
      one.ranks.push_back(from == to);
    }
  }
  return reach;
}

TEST(TopologyTest, OneHostIsOneNode) {
  const Topology topology = DrawTopology(ReachOf({0, 0, 0}));
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_EQ(topology.why_apart, "");
}

TEST(TopologyTest, RanksNeedNotLieSideBySide) {
  const Topology topology = DrawTopology(ReachOf({0, 1, 0, 1, 2}));
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4)));
  EXPECT_THAT(topology.NodeOf(3), ElementsAre(1, 3));
  EXPECT_EQ(topology.why_apart, "rank 0 cannot map the memory of rank 1: it is elsewhere");
}

TEST(TopologyTest, MappingInOneDirectionIsNotEnough) {
  std::vector<Reach> reach = ReachOf({0, 0});
  reach[1] = {{false, true}, 0, "permission denied"};
  const Topology topology = DrawTopology(reach);
  EXPECT_THAT(topology.nodes, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(topology.why_apart, "rank 1 cannot map the memory of rank 0: permission denied");
}

// 0 and 1 reach each other, 1 and 2 too, but 0 and 2 do not.
TEST(TopologyTest, AllOfANodeReachEachOther) {
  std::vector<Reach> reach = ReachOf({0, 0, 0});
  reach[0].ranks[2] = reach[2].ranks[0] = false;
  EXPECT_THAT(DrawTopology(reach).nodes, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

}  // namespace
}  // namespace lockstep::worker
