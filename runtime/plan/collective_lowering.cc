#include "runtime/plan/collective_lowering.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/teams.h"

namespace lockstep::plan {
namespace {

// With each slice along the axis as a layer of its own, which an exchange leaves apart: replicas in
// other slices are not asked for what lies in this one. Of a dtype that has partial values.
Layout WithSlicesApart(const Layout& layout, const std::string& axis) {
  std::vector<Placement> placements;
  for (int a = 0; a < layout.mesh().num_axes(); ++a) {
    const bool is_within = layout.mesh().axes()[static_cast<size_t>(a)].name == axis;
    const bool stays = is_within || layout.placement(a).is_shard();
    placements.push_back(stays ? layout.placement(a) : Placement::Partial(Reduction::kSum));
  }
  return *Layout::Make(layout.shape(), DType::kInt8, layout.mesh(), std::move(placements));
}

Move ExchangeAlong(const std::string& axis, const Layout& from, const Layout& to,
                   const Topology& topology, Spread spread) {
  std::optional<Exchange> exchange =
      PlanExchange(WithSlicesApart(from, axis), WithSlicesApart(to, axis), topology, spread,
                   std::numeric_limits<int64_t>::max());
  return {Move::Kind::kExchange, to, {}, std::make_shared<const Exchange>(*std::move(exchange))};
}

std::vector<Move> WaysOf(const Collective& collective, const Layout& from, const Layout& to,
                         const Topology& topology) {
  const std::vector<int> axes = {*to.mesh().FindAxis(collective.axis)};
  switch (collective.kind) {
    case OperationKind::kAllReduce:
      return {{Move::Kind::kAllReduce, to, axes, nullptr}};
    case OperationKind::kReduceScatter:
      return {{Move::Kind::kReduceScatter, to, axes, nullptr}};
    case OperationKind::kAllGather:
      return {{Move::Kind::kAllGather, to, axes, nullptr}};
    case OperationKind::kAllToAll:
      return {ExchangeAlong(collective.axis, from, to, topology, Spread::kDirect)};
    default:
      return {ExchangeAlong(collective.axis, from, to, topology, Spread::kDirect),
              ExchangeAlong(collective.axis, from, to, topology, Spread::kForwarded)};
  }
}

}  // namespace

Reshard LowerCollective(const Collective& collective, const CollectiveLayouts& layouts,
                        const Topology& topology, const CostModel& costs) {
  const Layout from = layouts.taken_as.WithoutUnitAxes();
  const Layout to = layouts.result.WithoutUnitAxes();
  const int axis = *layouts.result.mesh().FindAxis(collective.axis);
  const bool is_of_one = layouts.result.mesh().AxisSize(axis) == 1;
  if (is_of_one || to.shape().NumElements() == 0) return {from, to, {}, 0};
  std::optional<Reshard> best;
  for (Move& move : WaysOf(collective, from, to, topology)) {
    const double cost_us = CostOf(move, from, topology, costs).Microseconds(costs);
    if (best.has_value() && best->cost_us <= cost_us) continue;
    best = Reshard{from, to, {std::move(move)}, cost_us};
  }
  best->teams = TeamsOf(from, best->moves);
  return *std::move(best);
}

}  // namespace lockstep::plan
