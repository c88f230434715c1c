// Random pairs of layouts: every reshard gives the same tensor, and moves little more than must be
// moved.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

#include "runtime/plan/bounds/bounds.h"
#include "runtime/plan/lowering/reshard.h"
#include "tests/support/random_layouts.h"
#include "tests/unit/runtime/plan/lowering/reshard_check.h"

namespace lockstep::plan {
namespace {

using support::RandomLayouts;

// How many times a lower bound is moved.
class Factors {
 public:
  // That of the busiest rank may be beaten by moving more between nodes; that is no merit.
  void Add(double actual, double bound) {
    if (bound > 0) all_.push_back(std::max(1.0, actual / bound));
  }
  size_t count() const { return all_.size(); }
  double Mean() const {
    return std::accumulate(all_.begin(), all_.end(), 0.0) / static_cast<double>(all_.size());
  }
  double Worst() const { return *std::max_element(all_.begin(), all_.end()); }

 private:
  std::vector<double> all_;
};

bool HasGivenExtents(const Layout& layout) {
  return std::any_of(layout.placements().begin(), layout.placements().end(),
                     [](const Placement& placement) { return placement.extents != nullptr; });
}

struct FactorsOf {
  Factors rank;
  Factors node;
};

void ExpectNoLessThan(const Bounds& bounds, const Traffic& traffic) {
  constexpr double kRounding = 1 + 1e-9;
  double network = 0;
  for (const auto& [node, flux] : traffic.nodes) network += flux.in;
  EXPECT_GE(network * kRounding, bounds.network);
  EXPECT_GE(traffic.BusiestNode() * kRounding, bounds.busiest_node);
  if (network > bounds.network * kRounding) return;
  EXPECT_GE(traffic.BusiestRank() * kRounding, bounds.busiest_rank);
}

TEST(ReshardSweepTest, RandomPairsGiveTheSameTensorAndStayCloseToTheBounds) {
  constexpr int kPairs = 6000 / testing::kOneIn;
  RandomLayouts any(20240607);
  // Bytes alone count where factors do: with latencies, few bytes rightly go in fewer steps, and
  // where steps wait, more bytes in steps whose busiest ranks are others.
  CostModel bytes_only;
  bytes_only.steps_wait = false;
  bytes_only.step_us = bytes_only.network_step_us = bytes_only.copy_us_per_byte = 0;
  FactorsOf moving;
  FactorsOf reducing;
  FactorsOf reducing_given;  // beside given extents
  for (int pair = 0; pair < kPairs; ++pair) {
    const int world = 1 + any.Below(16);
    const bool large = pair % 2 == 0;
    const Shape shape = any.AnyShape(large);
    constexpr Reduction kOps[] = {Reduction::kSum, Reduction::kMin, Reduction::kMax};
    const Reduction op = kOps[any.Below(3)];
    const Mesh mesh = any.AnyMesh(world);
    const Layout from = any.AnyLayout(shape, mesh, op);
    const Layout to = any.AnyLayout(shape, any.Below(3) == 0 ? mesh : any.AnyMesh(world), op);
    const Topology topology = any.AnyTopology(world);
    SCOPED_TRACE(::testing::Message() << "pair " << pair << ": " << from << " to " << to);
    const StatusOr<Reshard> reshard =
        LowerReshard(from, to, topology, large ? bytes_only : CostModel());
    ASSERT_TRUE(reshard.ok()) << reshard.status();
    if (!large || pair % 16 == 0) {
      testing::ExpectSameTensor(
          *reshard, testing::MakeLayers(from, [&](int, int64_t) { return 1 + any.Below(9); }),
          world);
      if (HasFatalFailure()) return;
    }
    // Where partial values are made, docs/plans.md promises no factor.
    if (!large || !to.PartialAxes().empty()) continue;
    const Traffic traffic = reshard->TrafficIn(topology);
    const Bounds bounds = LowerBounds(from, to, topology);
    const bool reduces = !from.PartialAxes().empty();
    const bool is_given = HasGivenExtents(from) || HasGivenExtents(to);
    FactorsOf& factors = !reduces ? moving : is_given ? reducing_given : reducing;
    factors.rank.Add(traffic.BusiestRank(), bounds.busiest_rank);
    factors.node.Add(traffic.BusiestNode(), bounds.busiest_node);
    ExpectNoLessThan(bounds, traffic);
    if (reduces) continue;
    EXPECT_LE(traffic.BusiestRank(), 2 * bounds.busiest_rank);
    EXPECT_LE(traffic.BusiestNode(), 1.5 * bounds.busiest_node);
  }
  ASSERT_GT(moving.node.count(), 500u / testing::kOneIn);
  ASSERT_GT(reducing.node.count(), 200u / testing::kOneIn);
  // As docs/plans.md says; an element that is not divided evenly makes it a little more.
  for (const FactorsOf* factors : {&reducing, &reducing_given}) {
    EXPECT_LE(factors->rank.Worst(), 2.001);
    EXPECT_LE(factors->node.Worst(), 2.001);
  }
  // The means are those of all pairs: of a dozen they say little.
  if (testing::kOneIn == 1) {
    EXPECT_LE(moving.rank.Mean(), 1.03);
    EXPECT_LE(moving.node.Mean(), 1.01);
    EXPECT_LE(reducing.rank.Mean(), 1.11);
    EXPECT_LE(reducing_given.rank.Mean(), 1.13);
    EXPECT_LE(reducing.node.Mean(), 1.05);
    EXPECT_LE(reducing_given.node.Mean(), 1.05);
  }
  // The figures of docs/plans.md: --test_output=all shows them.
  const auto print = [](const char* what, const FactorsOf& factors) {
    std::cout << what << ": busiest rank " << factors.rank.Mean() << " mean, "
              << factors.rank.Worst() << " worst of " << factors.rank.count() << "; busiest node "
              << factors.node.Mean() << " mean, " << factors.node.Worst() << " worst of "
              << factors.node.count() << "\n";
  };
  print("moving", moving);
  print("reducing", reducing);
  print("reducing beside given extents", reducing_given);
}

}  // namespace
}  // namespace lockstep::plan
