#include "runtime/plan/lowering/collective_lowering.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/lowering/teams.h"

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

// Nothing if it has too many pieces.
std::optional<Move> ExchangeAlong(const std::string& axis, const Layout& from, const Layout& to,
                                  const Topology& topology, Spread spread, int64_t most_pieces) {
  std::optional<Exchange> exchange = PlanExchange(
      WithSlicesApart(from, axis), WithSlicesApart(to, axis), topology, spread, most_pieces);
  if (!exchange.has_value()) return std::nullopt;
  return Move{
      Move::Kind::kExchange, to, {}, std::make_shared<const Exchange>(*std::move(exchange))};
}

std::vector<std::optional<Move>> WaysOf(const Collective& collective, const Layout& from,
                                        const Layout& to, const Topology& topology,
                                        int64_t most_pieces) {
  const std::vector<int> axes = {*to.mesh().FindAxis(collective.axis)};
  const auto exchange = [&](Spread spread) {
    return ExchangeAlong(collective.axis, from, to, topology, spread, most_pieces);
  };
  switch (collective.kind) {
    case OperationKind::kAllReduce:
      return {Move{Move::Kind::kAllReduce, to, axes, nullptr}};
    case OperationKind::kReduceScatter:
      return {Move{Move::Kind::kReduceScatter, to, axes, nullptr}};
    case OperationKind::kAllGather:
      return {Move{Move::Kind::kAllGather, to, axes, nullptr}};
    case OperationKind::kAllToAll:
      return {exchange(Spread::kDirect)};
    default:
      return {exchange(Spread::kDirect), exchange(Spread::kForwarded)};
  }
}

// As those of a reshard: ranks, and pieces.
int64_t EffortOf(const Move& move) {
  int64_t effort = move.to.mesh().size();
  if (move.exchange == nullptr) return effort;
  for (const auto& round : move.exchange->rounds) effort += static_cast<int64_t>(round.size());
  return effort;
}

}  // namespace

StatusOr<Reshard> LowerCollective(const Collective& collective, const CollectiveLayouts& layouts,
                                  const Topology& topology, const CostModel& costs,
                                  int64_t most_effort) {
  const Layout from = layouts.taken_as.WithoutUnitAxes();
  const Layout to = layouts.result.WithoutUnitAxes();
  const int axis = *layouts.result.mesh().FindAxis(collective.axis);
  const bool is_of_one = layouts.result.mesh().AxisSize(axis) == 1;
  if (is_of_one || to.shape().NumElements() == 0) return Reshard{from, to, {}, 0};
  std::optional<Reshard> best;
  int64_t effort = 0;
  for (std::optional<Move>& move : WaysOf(collective, from, to, topology, most_effort)) {
    effort += move.has_value() ? EffortOf(*move) : most_effort;
    if (!move.has_value()) continue;
    const double cost_us = CostOf(*move, from, topology, costs).Microseconds(costs);
    if (best.has_value() && best->cost_us <= cost_us) continue;
    best = Reshard{from, to, {*std::move(move)}, cost_us};
  }
  if (!best.has_value()) {
    return ResourceExhausted(collective.ToString(), ": among ", to.mesh().size(),
                             " ranks it takes more than ", most_effort,
                             " pieces of tensors; use an axis of fewer ranks, or two collectives "
                             "along two axes");
  }
  best->teams = TeamsOf(from, best->moves);
  best->effort = effort;
  return *std::move(best);
}

}  // namespace lockstep::plan
