#include "runtime/plan/lowering/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "runtime/plan/bounds/bounds.h"
#include "runtime/plan/lowering/exchange.h"
#include "runtime/plan/lowering/teams.h"
#include "runtime/plan/steps/expand.h"
#include "tests/unit/runtime/plan/lowering/reshard_check.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Placement kReplicate = Placement::Replicate();
const Placement kSum = Placement::Partial(Reduction::kSum);
Placement S(int dim) { return Placement::Shard(dim); }

Layout On(const Mesh& mesh, std::vector<Placement> placements, const Shape& shape = {12, 8},
          DType dtype = DType::kInt32) {
  return *Layout::Make(shape, dtype, mesh, std::move(placements));
}
Mesh Line(std::vector<Rank> ranks) { return *Mesh::Line(std::move(ranks)); }

// The moves, as they are written.
std::vector<std::string> MovesOf(const Layout& from, const Layout& to, Topology topology = {}) {
  const Reshard reshard = *LowerReshard(from, to, topology, CostModel());
  std::vector<std::string> moves;
  const Layout* before = &reshard.from;
  for (const Move& move : reshard.moves) {
    moves.push_back(move.Describe(*before));
    before = &move.to;
  }
  return moves;
}

TEST(ReshardTest, EachRowOfTheTable) {
  const Mesh mesh = Line({0, 1, 2, 3});
  const Layout replicated = On(mesh, {kReplicate});
  const Layout rows = On(mesh, {S(0)});
  const Layout columns = On(mesh, {S(1)});
  const Layout partial = On(mesh, {kSum});
  EXPECT_THAT(MovesOf(rows, rows), ElementsAre());
  EXPECT_THAT(MovesOf(replicated, rows), ElementsAre("slice"));
  EXPECT_THAT(MovesOf(rows, replicated), ElementsAre("allgather along x"));
  EXPECT_THAT(MovesOf(rows, columns), ElementsAre("exchange"));
  EXPECT_THAT(MovesOf(partial, replicated), ElementsAre("allreduce along x"));
  EXPECT_THAT(MovesOf(partial, rows), ElementsAre("reduce-scatter along x"));
  EXPECT_THAT(MovesOf(partial, columns), ElementsAre("reduce-scatter along x"));
  EXPECT_THAT(MovesOf(rows, partial), ElementsAre("make partial"));
  EXPECT_THAT(MovesOf(replicated, partial), ElementsAre("slice", "make partial"));
  EXPECT_THAT(MovesOf(partial, partial), ElementsAre());
}

TEST(ReshardTest, EachRowOfTheTableWithGivenExtents) {
  const Mesh mesh = Line({0, 1, 2, 3});
  const Layout replicated = On(mesh, {kReplicate});
  const Layout rows = On(mesh, {S(0)});
  const Layout partial = On(mesh, {kSum});
  const Layout ragged = On(mesh, {Placement::Shard(0, {5, 0, 1, 6})});
  EXPECT_THAT(MovesOf(ragged, ragged), ElementsAre());
  EXPECT_THAT(MovesOf(On(mesh, {Placement::Shard(0, {3, 3, 3, 3})}), rows), ElementsAre());
  EXPECT_THAT(MovesOf(replicated, ragged), ElementsAre("slice"));
  EXPECT_THAT(MovesOf(ragged, replicated), ElementsAre("allgather along x"));
  EXPECT_THAT(MovesOf(ragged, rows), ElementsAre("exchange"));
  EXPECT_THAT(MovesOf(rows, ragged), ElementsAre("exchange"));
  EXPECT_THAT(MovesOf(ragged, On(mesh, {Placement::Shard(1, {0, 8, 0, 0})})),
              ElementsAre("exchange"));
  EXPECT_THAT(MovesOf(partial, ragged), ElementsAre("reduce-scatter along x"));
  EXPECT_THAT(MovesOf(ragged, partial), ElementsAre("make partial"));
}

TEST(ReshardTest, EveryPairWithGivenExtents) {
  const Mesh grid = *Mesh::Make({{"x", 2}, {"y", 3}}, {4, 1, 0, 5, 2, 3});
  std::vector<std::pair<Mesh, std::vector<Placement>>> all;
  for (const Placement& x :
       {Placement::Shard(0, {0, 7}), Placement::Shard(1, {4, 1}), S(0), S(1), kReplicate, kSum}) {
    for (const Placement& y :
         {Placement::Shard(0, {1, 6, 0}), Placement::Shard(1, {0, 2, 3}), S(0), kReplicate, kSum}) {
      if (Layout::Make({7, 5}, DType::kInt32, grid, {x, y}).ok()) {
        all.emplace_back(grid, std::vector{x, y});
      }
    }
  }
  all.emplace_back(Line({3, 6}), std::vector{Placement::Shard(0, {6, 1})});
  all.emplace_back(Line({1, 0, 2}), std::vector{Placement::Shard(1, {0, 0, 5})});
  ASSERT_EQ(all.size(), 6u * 5 - 5 + 2) << "but those that shard one dimension twice";
  for (const auto& [from_mesh, from_placements] : all) {
    for (const auto& [to_mesh, to_placements] : all) {
      const Layout from = On(from_mesh, from_placements, {7, 5});
      const Layout to = On(to_mesh, to_placements, {7, 5});
      SCOPED_TRACE(::testing::Message() << from << " to " << to);
      const auto reshard = LowerReshard(from, to, Topology({0, 0, 1, 1, 2, 2, 3}), CostModel());
      ASSERT_TRUE(reshard.ok()) << reshard.status();
      testing::ExpectSameTensor(
          *reshard,
          testing::MakeLayers(
              from, [](int layer, int64_t i) { return static_cast<int32_t>(100 * layer + i); }),
          7);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReshardTest, SeveralAxesAtOnce) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 2}}, {0, 1, 2, 3});
  EXPECT_THAT(MovesOf(On(mesh, {S(0), S(0)}), On(mesh, {kReplicate, kReplicate})),
              ElementsAre("allgather along x, y"));
  EXPECT_THAT(MovesOf(On(mesh, {kSum, kSum}), On(mesh, {kReplicate, kReplicate})),
              ElementsAre("allreduce along x, y"));
  EXPECT_THAT(MovesOf(On(mesh, {kSum, kReplicate}), On(mesh, {kReplicate, S(0)})),
              ElementsAre("slice", "allreduce along x"));
  EXPECT_THAT(MovesOf(On(mesh, {kSum, S(1)}), On(mesh, {S(0), S(1)})),
              ElementsAre("reduce-scatter along x"));
}

TEST(ReshardTest, BetweenMeshes) {
  EXPECT_THAT(MovesOf(On(Line({0, 1}), {S(0)}), On(Line({2, 3}), {S(0)})), ElementsAre("exchange"));
  EXPECT_THAT(MovesOf(On(Line({0, 1}), {S(0)}), On(Line({1, 0}), {S(0)})), ElementsAre("exchange"));
  // The same mesh by another name.
  EXPECT_THAT(MovesOf(On(Line({0, 1}), {S(0)}),
                      On(*Mesh::Make({{"a", 1}, {"b", 2}}, {0, 1}), {kReplicate, S(0)})),
              ElementsAre());
}

TEST(ReshardTest, ARankThatHasWhatItNeedsReceivesNothing) {
  const Reshard reshard = *LowerReshard(On(Line({0, 1}), {kReplicate}),
                                        On(Line({0, 1, 2, 3}), {kReplicate}), {}, CostModel());
  const Traffic traffic = reshard.TrafficIn({});
  EXPECT_EQ(traffic.ranks.at(0).in, 0);
  EXPECT_EQ(traffic.ranks.at(2).in, 12 * 8 * 4);
  // Both senders share the work.
  EXPECT_EQ(traffic.ranks.at(0).out, traffic.ranks.at(1).out);
}

TEST(ReshardTest, MuchDataIsScatteredAndGatheredInsteadOfSentTwice) {
  const Layout from = On(Line({0}), {kReplicate}, {1 << 20});
  const Layout to = On(Line({1, 2, 3, 4}), {kReplicate}, {1 << 20});
  const Topology nodes({0, 1, 1, 1, 1});
  const Reshard reshard = *LowerReshard(from, to, nodes, CostModel());
  const Traffic traffic = reshard.TrafficIn(nodes);
  EXPECT_EQ(traffic.ranks.at(0).out, 4 << 20);
  EXPECT_EQ(traffic.nodes.at(1).in, 4 << 20);
}

TEST(ReshardTest, EachDatumEntersANodeOnce) {
  const Layout from = On(Line({0}), {kReplicate}, {1 << 20});
  const Layout to = On(Line({1, 2, 3, 4}), {kReplicate}, {1 << 20});
  const Topology nodes({0, 1, 1, 2, 2});
  const Traffic traffic = LowerReshard(from, to, nodes, CostModel())->TrafficIn(nodes);
  EXPECT_EQ(traffic.nodes.at(1).in, 4 << 20);
  EXPECT_EQ(traffic.nodes.at(2).in, 4 << 20);
  EXPECT_EQ(traffic.nodes.at(0).out, 4 << 20);
}

// What is sent between ranks that do not meet waits for nothing else.
TEST(ExchangeTest, PiecesAreFoundByRankInTheirOrder) {
  const PiecesByRank pieces({{1, 3, 0, 0, 4}, {1, 0, 0, 0, 4}, {0, 3, 1, 0, 4}, {1, 3, 1, 4, 4}});
  EXPECT_THAT(pieces.SentBy(1), ElementsAre(0, 1, 3));
  EXPECT_THAT(pieces.SentBy(0), ElementsAre(2));
  EXPECT_THAT(pieces.SentBy(3), ElementsAre());
  EXPECT_THAT(pieces.ReceivedBy(3), ElementsAre(0, 2, 3));
  EXPECT_THAT(pieces.ReceivedBy(4), ElementsAre());
}

TEST(TeamsTest, ARankIsInOneTeamOrInNone) {
  const Teams teams({{4, 2}, {0, 7, 3}});
  EXPECT_THAT(teams.With(2), ElementsAre(4, 2));
  EXPECT_THAT(teams.With(7), ElementsAre(0, 7, 3));
  EXPECT_THAT(teams.With(1), ElementsAre());
  EXPECT_THAT(teams.With(8), ElementsAre());
}

TEST(ReshardTest, PairsThatExchangeAreTeamsOfTheirOwn) {
  const Reshard reshard =
      *LowerReshard(On(Line({0, 1}), {S(0)}), On(Line({2, 3}), {S(0)}), {}, CostModel());
  for (const Step& step : Expand(reshard, 3).steps) {
    if (const auto* collective = std::get_if<CollectiveStep>(&step)) {
      EXPECT_THAT(collective->team, ElementsAre(1, 3));
    }
  }
  EXPECT_TRUE(Expand(reshard, 4).steps.empty());
}

// What lies in the tiles as it travels is neither packed nor unpacked.
TEST(ReshardTest, NothingIsCopiedThatLiesAsItTravels) {
  const auto steps = [](const Layout& from, const Layout& to, Rank rank) {
    return Expand(*LowerReshard(from, to, {}, CostModel()), rank);
  };
  const Layout rows = On(Line({0, 1}), {S(0)});
  const RankSteps sender = steps(rows, On(Line({2, 3}), {S(0)}), 0);
  EXPECT_EQ(sender.steps.size(), 1u);
  EXPECT_EQ(sender.buffer_elements.size(), 2u) << "but input and output";
  EXPECT_EQ(steps(rows, On(Line({2, 3}), {S(0)}), 3).steps.size(), 1u);
  // One tile comes from two ranks, and lies one after the other in it.
  EXPECT_EQ(steps(rows, On(Line({2}), {kReplicate}), 2).steps.size(), 1u);
  // Columns have to be picked out of rows.
  EXPECT_GT(steps(rows, On(Line({2, 3}), {S(1)}), 0).steps.size(), 1u);
}

TEST(ReshardTest, WhatCannotBeIsRefused) {
  const Mesh mesh = Line({0, 1});
  const auto message = [&](const Layout& from, const Layout& to) {
    return Message(LowerReshard(from, to, {}, CostModel()).status());
  };
  EXPECT_THAT(message(On(mesh, {S(0)}, {4}), On(mesh, {S(0)}, {5})),
              HasSubstr("keeps shape and dtype"));
  EXPECT_THAT(message(On(mesh, {S(0)}, {4}, DType::kInt8), On(mesh, {S(0)}, {4})),
              HasSubstr("keeps shape and dtype"));
  EXPECT_THAT(message(On(mesh, {S(0)}), On(mesh, {Placement::Partial(Reduction::kAvg)})),
              HasSubstr("use partial(sum)"));
}

// Every placement of every mesh to every other, with extents that are odd, one, or nothing.
TEST(ReshardTest, EveryPairOfLayoutsOnSmallMeshes) {
  std::vector<Mesh> meshes = {
      Line({0}),
      Line({1}),
      Line({0, 1}),
      Line({1, 0}),
      Line({1, 2}),
      Line({0, 2}),
      Line({0, 1, 2, 3}),
      Line({0, 2, 3}),
      Line({1, 0, 2}),
      *Mesh::Make({{"x", 2}, {"y", 2}}, {0, 1, 2, 3}),
      *Mesh::Make({{"x", 2}, {"y", 3}}, {0, 1, 2, 3, 4, 5}),
      *Mesh::Make({{"x", 2}, {"y", 2}, {"z", 2}}, {0, 1, 2, 3, 4, 5, 6, 7})};
  const Placement choices[] = {kReplicate, S(0), S(1), kSum};
  std::vector<std::pair<Mesh, std::vector<Placement>>> all;
  for (const Mesh& mesh : meshes) {
    for (int code = 0; code < 1 << (2 * mesh.num_axes()); ++code) {
      std::vector<Placement> placements;
      for (int a = 0; a < mesh.num_axes(); ++a) placements.push_back(choices[code >> (2 * a) & 3]);
      all.emplace_back(mesh, placements);
    }
  }
  const Shape shapes[] = {{5, 3}, {1, 4}, {7, 1}, {0, 2}, {2, 2}};
  const Topology topologies[] = {Topology(), Topology({0, 0, 1, 1, 2, 2, 3, 3})};
  size_t pair = 0;
  for (const auto& [from_mesh, from_placements] : all) {
    for (const auto& [to_mesh, to_placements] : all) {
      const Shape& shape = shapes[++pair % 5];
      if (pair % testing::kOneIn != 0) continue;
      const Layout from = On(from_mesh, from_placements, shape);
      const Layout to = On(to_mesh, to_placements, shape);
      SCOPED_TRACE(::testing::Message() << from << " to " << to);
      const StatusOr<Reshard> reshard = LowerReshard(from, to, topologies[pair % 2], CostModel());
      ASSERT_TRUE(reshard.ok()) << reshard.status();
      testing::ExpectSameTensor(
          *reshard,
          testing::MakeLayers(
              from, [](int layer, int64_t i) { return static_cast<int32_t>(100 * layer + i); }),
          8);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReshardTest, EveryDtypeAndReduction) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 2}}, {3, 1, 2, 0});
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    for (int op = 0; op < kReductionCount; ++op) {
      const auto from =
          Layout::Make({5, 2}, dtype, mesh, {Placement::Partial(static_cast<Reduction>(op)), S(1)});
      if (!from.ok()) continue;  // LayoutTest has which
      for (const std::vector<Placement>& placements :
           {std::vector{kReplicate, kReplicate}, {S(0), S(1)}, {S(1), S(0)}}) {
        const Layout to = On(mesh, placements, {5, 2}, dtype);
        SCOPED_TRACE(::testing::Message() << *from << " to " << to);
        const Reshard reshard = *LowerReshard(*from, to, {}, CostModel());
        testing::ExpectSameTensor(reshard,
                                  testing::MakeLayers(*from,
                                                      [&](int layer, int64_t i) -> int32_t {
                                                        // An average that every dtype can hold.
                                                        return static_cast<Reduction>(op) ==
                                                                       Reduction::kAvg
                                                                   ? 3
                                                                   : 1 + (layer + i) % 3;
                                                      }),
                                  4);
      }
    }
    const Layout rows = On(mesh, {S(0), kReplicate}, {5, 2}, dtype);
    const Layout columns = On(mesh, {kReplicate, S(1)}, {5, 2}, dtype);
    testing::ExpectSameTensor(
        *LowerReshard(rows, columns, {}, CostModel()),
        testing::MakeLayers(rows, [](int, int64_t i) -> int32_t { return i; }), 4);
  }
}

// Each rank of a large mesh has a short list of steps, and no plan grows with the square of the
// ranks.
TEST(ReshardTest, AThousandRanks) {
  std::vector<Rank> ranks(1024);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> nodes;
  for (Rank rank : ranks) nodes.push_back(rank / 8);
  const Topology topology(nodes);
  const Mesh mesh = *Mesh::Make({{"data", 128}, {"model", 8}}, ranks);
  const std::vector<std::vector<Placement>> layouts = {
      {S(0), S(1)}, {S(0), kReplicate}, {kReplicate, S(1)}, {kSum, S(0)}, {S(1), S(0)}};
  int pair = 0;
  for (const auto& from : layouts) {
    for (const auto& to : layouts) {
      if (pair++ % testing::kOneIn != 0) continue;
      SCOPED_TRACE(::testing::Message() << from[0].ToString() << ", " << from[1].ToString()
                                        << " to " << to[0].ToString() << ", " << to[1].ToString());
      const Reshard reshard = *LowerReshard(On(mesh, from, {4096, 4096}),
                                            On(mesh, to, {4096, 4096}), topology, CostModel());
      EXPECT_LE(Expand(reshard, 77).steps.size(), 300u);
      for (const Move& move : reshard.moves) {
        if (move.exchange == nullptr) continue;
        for (const auto& round : move.exchange->rounds) EXPECT_LE(round.size(), 1024u * 128);
      }
    }
  }
}

// Eight axes that each do something else allow thousands of ways.
TEST(ReshardTest, TheSearchHasAnEnd) {
  std::vector<Rank> ranks(256);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<MeshAxis> axes;
  for (int a = 0; a < 8; ++a) axes.push_back({"a" + std::to_string(a), 2});
  const Mesh mesh = *Mesh::Make(axes, ranks);
  std::reverse(ranks.begin(), ranks.end());
  const Mesh other = *Mesh::Make(axes, ranks);
  const Shape shape = {33, 33, 33, 33, 33, 33, 33, 33};
  const Reshard reshard = *LowerReshard(
      On(mesh, {kReplicate, kSum, S(4), S(7), kReplicate, S(7), kSum, kReplicate}, shape),
      On(other, {S(0), S(1), kReplicate, kReplicate, kReplicate, kSum, S(6), kSum}, shape),
      Topology(), CostModel());
  EXPECT_LT(reshard.effort, int64_t{1} << 21);
  EXPECT_FALSE(reshard.moves.empty());
}

// Counted, and not timed: all ranks refuse the same.
TEST(ReshardTest, WhatTakesTooLongIsRefused) {
  const Mesh mesh = Line({0, 1, 2, 3});
  const auto lower = [&](int64_t most) {
    return LowerReshard(On(mesh, {S(0)}), On(mesh, {S(1)}), {}, CostModel(), most).status();
  };
  EXPECT_EQ(lower(12), OkStatus()) << "each rank sends three pieces";
  EXPECT_EQ(lower(11).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(lower(11)),
              AllOf(HasSubstr("a reshard of 4 ranks to 4 took "), HasSubstr("at most 11 are taken"),
                    HasSubstr("use meshes of fewer ranks")));
}

TEST(BoundsTest, AreTheUsualOnes) {
  const Mesh mesh = Line({0, 1, 2, 3});
  const double bytes = 12 * 8 * 4;
  const auto rank_bound = [&](Placement from, Placement to) {
    return LowerBounds(On(mesh, {from}), On(mesh, {to}), {}).busiest_rank;
  };
  EXPECT_EQ(rank_bound(S(0), kReplicate), bytes * 3 / 4);
  EXPECT_EQ(rank_bound(S(0), S(1)), bytes * 3 / 16);
  EXPECT_EQ(rank_bound(kSum, kReplicate), bytes * 2 * 3 / 4);
  EXPECT_EQ(rank_bound(kSum, S(0)), bytes * 3 / 4);
  EXPECT_EQ(rank_bound(kReplicate, S(0)), 0);
  const Topology nodes({0, 0, 1, 1});
  EXPECT_EQ(LowerBounds(On(mesh, {S(0)}), On(mesh, {kReplicate}), nodes).busiest_node, bytes / 2);
  EXPECT_EQ(LowerBounds(On(mesh, {kSum}), On(mesh, {kReplicate}), nodes).busiest_node, bytes);
}

// 4 bytes, on which each figure below is derived by hand.
Bounds BoundsOf(const Mesh& from, std::vector<Placement> had, const Mesh& to,
                std::vector<Placement> wanted, std::vector<int> nodes) {
  return LowerBounds(On(from, std::move(had), {1}), On(to, std::move(wanted), {1}),
                     Topology(std::move(nodes)));
}

TEST(BoundsTest, WhatANodeHasAllPartialValuesOfDoesNotCross) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 2}}, {0, 1, 2, 3});
  const Bounds bounds =
      BoundsOf(mesh, {kReplicate, kSum}, mesh, {kReplicate, kReplicate}, {0, 0, 1, 1});
  EXPECT_EQ(bounds.busiest_node, 0);
  EXPECT_EQ(bounds.network, 0);
  EXPECT_EQ(bounds.busiest_rank, 4);  // each lacks the other's value
}

TEST(BoundsTest, PartialValuesOfTwoNodesCrossOnceToOneOfThem) {
  // Ranks 0 and 1 combine theirs, and 2, which needs all, gets that.
  const Bounds bounds = BoundsOf(Line({0, 1, 2}), {kSum}, Line({2}), {kReplicate}, {0, 0, 1});
  EXPECT_EQ(bounds.network, 4);
  EXPECT_EQ(bounds.busiest_node, 4);
}

TEST(BoundsTest, PartialValuesOfTwoNodesCrossTwiceToAThird) {
  const Bounds bounds = BoundsOf(Line({0, 1}), {kSum}, Line({2}), {kReplicate}, {0, 1, 2});
  EXPECT_EQ(bounds.network, 8);
  EXPECT_EQ(bounds.busiest_node, 4);  // one to the other, and the sum to node 2
}

// Node 1 has one replica of each of the two values, though of different slices of the mesh.
TEST(BoundsTest, ReplicasOfDifferentSlicesCombine) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 2}}, {0, 1, 2, 3});
  const Bounds bounds =
      BoundsOf(mesh, {kReplicate, kSum}, Line({4}), {kReplicate}, {0, 1, 1, 2, 3});
  EXPECT_EQ(bounds.network, 4);
}

// Three values, two replicas each: nodes 0 and 1 hold two of them each, but the same two.
TEST(BoundsTest, ReplicasOfTheSameValueDoNotCountTwice) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 3}}, {0, 1, 2, 3, 4, 5});
  const Bounds bounds =
      BoundsOf(mesh, {kReplicate, kSum}, Line({6}), {kReplicate}, {0, 0, 2, 1, 1, 2, 3});
  EXPECT_EQ(bounds.network, 8);  // node 2 with 0 or 1: one to the other, and the sum to node 3
}

// What rank 0 holds leaves it once: rank 1, on its node, can send it on to the other node.
TEST(BoundsTest, WhatIsSentToTheOwnNodeCanBeForwarded) {
  const Bounds bounds = BoundsOf(Line({0}), {kReplicate}, Line({1, 2}), {kReplicate}, {0, 0, 1});
  EXPECT_EQ(bounds.busiest_rank, 4);
  EXPECT_EQ(bounds.busiest_node, 4);
}

// Both tiles are on node 0 alone, so that both leave it.
TEST(BoundsTest, AllThatOneNodeAloneHoldsLeavesIt) {
  const Layout from = On(Line({0, 1}), {S(0)}, {2});
  const Layout to = On(Line({2, 3}), {S(0)}, {2});
  EXPECT_EQ(LowerBounds(from, to, Topology({0, 0, 1, 2})).busiest_node, 8);
}

TEST(ReshardTest, PartialValuesAreCombinedWhereTheyAreNeeded) {
  // Ranks 0 to 2 on one node, 3 on another, which alone needs the result.
  const Topology nodes({0, 0, 0, 1});
  const Reshard reshard = *LowerReshard(On(Line({0, 1, 2, 3}), {kSum}, {1 << 20}),
                                        On(Line({3}), {kReplicate}, {1 << 20}), nodes, CostModel());
  EXPECT_THAT(reshard.Describe(), HasSubstr("combine where needed"));
  EXPECT_EQ(reshard.TrafficIn(nodes).BusiestNode(), 4 << 20);
}

// The partial values of one axis are combined, on the node that needs them; those of the other
// stay.
TEST(ReshardTest, PartialValuesOfSomeAxesAreCombinedWhereTheyAreNeeded) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 2}, {"z", 2}}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Layout from = On(mesh, {kSum, kSum, kReplicate}, {3 << 18});
  const Layout to =
      On(mesh, {kSum, Placement::Shard(0, {1 << 18, 1 << 19}), kReplicate}, {3 << 18});
  const Topology nodes({0, 0, 1, 1, 0, 0, 1, 1});
  const Reshard reshard = *LowerReshard(from, to, nodes, CostModel());
  EXPECT_THAT(reshard.Describe(), HasSubstr("combine where needed"));
  const Layout small = *Layout::Make({6}, DType::kInt32, mesh, from.placements());
  CostModel bytes_only;
  bytes_only.step_us = bytes_only.network_step_us = bytes_only.copy_us_per_byte = 0;
  const Layout small_to = On(mesh, {kSum, Placement::Shard(0, {2, 4}), kReplicate}, {6});
  const Reshard executed = *LowerReshard(small, small_to, nodes, bytes_only);
  EXPECT_THAT(executed.Describe(), HasSubstr("combine where needed"));
  testing::ExpectSameTensor(
      executed,
      testing::MakeLayers(small,
                          [](int layer, int64_t i) { return static_cast<int>(layer * 10 + i); }),
      8);
}

// Both nodes have all partial values: each combines what its ranks need, by itself.
TEST(BoundsTest, ANodeThatHasAllLayersCombinesThemByItself) {
  const Mesh mesh = *Mesh::Make({{"x", 2}, {"y", 3}}, {0, 1, 2, 3, 4, 5});
  const Bounds bounds =
      BoundsOf(mesh, {kReplicate, kSum}, mesh, {kReplicate, kReplicate}, {0, 0, 0, 1, 1, 1});
  EXPECT_EQ(bounds.network, 0);
  EXPECT_NEAR(bounds.busiest_rank, 2.0 * 2 / 3 * 4, 1e-9);  // as an allreduce of three ranks
}

}  // namespace
}  // namespace lockstep::plan
