#include "runtime/plan/lowering/reshard.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/layout_relations.h"
#include "runtime/plan/lowering/teams.h"

namespace lockstep::plan {
namespace {

class Lowering {
 public:
  Lowering(const Layout& from, const Layout& to, const Topology& topology, const CostModel& costs,
           int64_t most_effort)
      : most_effort_(most_effort),
        from_(from.WithoutUnitAxes()),
        to_(to.WithoutUnitAxes()),
        topology_(topology),
        costs_(costs) {}

  StatusOr<Reshard> Run() {
    SortPartialAxes();
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Layout> targets, BeforeNewPartials());
    // Where all ways have more pieces than that, as an all-to-all among a thousand ranks has, they
    // are what it takes.
    for (const int64_t most_pieces : {std::min(kManyPieces, most_effort_), most_effort_}) {
      most_pieces_ = most_pieces;
      for (const Layout& target : targets) {
        if (HasSearchedEnough()) break;
        for (const Path& head : Heads(target)) AddTails(head, target);
        AddCombinations(target);
      }
      if (best_.has_value()) break;
    }
    if (!best_.has_value()) {
      return ResourceExhausted("to find a way for a reshard of ", from_.mesh().size(), " ranks to ",
                               to_.mesh().size(), " took ", effort_,
                               " looks at ranks and pieces of tensors, and at most ", most_effort_,
                               " are taken; reshard by a layout in between that fewer ranks have "
                               "a part of, or use meshes of fewer ranks");
    }
    Path best = std::move(*best_);
    auto teams = TeamsOf(from_, best.moves);
    return Reshard{from_, to_, std::move(best.moves), best.cost_us, std::move(teams), effort_};
  }

 private:
  struct Path {
    Layout end;
    std::vector<Move> moves;
    MoveCost cost = {};
    double cost_us = 0;
  };

  // Which axes keep their partial values, which lose them, and which get them.
  void SortPartialAxes() {
    combined_ = NewPartialAxes(to_, from_);
    made_ = NewPartialAxes(from_, to_);
  }

  // The layouts from which kMakePartial makes `to`, or `to` itself.
  StatusOr<std::vector<Layout>> BeforeNewPartials() const {
    if (made_.empty()) return std::vector<Layout>{to_};
    const Layout whole = WithPlacement(to_, made_, Placement::Replicate());
    switch (to_.reduction()) {
      case Reduction::kSum:
      case Reduction::kProd: {
        // One coordinate has all of it, or each a part, and the rest is filled up.
        std::vector<Layout> targets = {*whole.On(to_.mesh().FirstAlong(made_))};
        for (int d : DimsToShard(to_, made_)) {
          targets.push_back(
              Innermost(WithPlacement(to_, made_, Placement::Shard(d)), made_).layout);
        }
        if (from_.mesh() == to_.mesh()) {
          std::vector<Placement> placements = whole.placements();
          for (int a : made_) {
            if (from_.placement(a).is_shard()) {
              placements[static_cast<size_t>(a)] = from_.placement(a);
            }
          }
          // Not where given extents would have to share their dimension; nor below.
          const StatusOr<Layout> kept = whole.With(std::move(placements));
          if (kept.ok() && std::none_of(made_.begin(), made_.end(),
                                        [&](int a) { return kept->placement(a).is_replicate(); })) {
            targets.push_back(Innermost(*kept, made_).layout);
          }
        }
        return targets;
      }
      case Reduction::kMin:
      case Reduction::kMax:
        return std::vector<Layout>{whole};  // combined with itself, a value is what it was
      case Reduction::kAvg:
        break;
    }
    return Internal("new partial values of an average, which CheckReshard() refuses: ", to_);
  }

  Path Then(const Path& path, Move move) const {
    effort_ += move.to.mesh().size();
    Path next = path;
    next.cost.Add(CostOf(move, path.end, topology_, costs_));
    next.cost_us = next.cost.Microseconds(costs_);
    next.end = move.to;
    next.moves.push_back(std::move(move));
    return next;
  }
  Path Then(const Path& path, Move::Kind kind, const Layout& to, std::vector<int> axes = {}) const {
    return Then(path, Move{kind, to, std::move(axes)});
  }

  // Nothing if the exchange would have too many pieces.
  std::optional<Path> ThenExchange(const Path& path, const Layout& to,
                                   Spread spread = Spread::kDirect) const {
    std::optional<Exchange> exchange = PlanExchange(path.end, to, topology_, spread, most_pieces_);
    effort_ += path.end.mesh().size();
    if (!exchange.has_value()) {
      effort_ += most_pieces_;
      return std::nullopt;
    }
    for (const auto& round : exchange->rounds) effort_ += static_cast<int64_t>(round.size());
    Move move{Move::Kind::kExchange, to, {}};
    move.exchange = std::make_shared<const Exchange>(*std::move(exchange));
    return Then(path, std::move(move));
  }

  // Ways to a layout that has no partial values to be combined any more.
  std::vector<Path> Heads(const Layout& target) const {
    const Path start{from_, {}};
    if (combined_.empty()) return {start};
    std::vector<Path> heads;
    for (const Path& sliced : Slices(start, target)) AddReductions(sliced, target, heads);
    return heads;
  }

  static void AddIfAny(std::optional<Path> path, std::vector<Path>& paths) {
    if (path.has_value()) paths.push_back(*std::move(path));
  }

  // Ranks that hold the same need not combine the same: each may do a part of it.
  std::vector<Path> Slices(const Path& start, const Layout& target) const {
    std::vector<Path> paths = {start};
    const std::vector<int> replicated = ReplicatedAxes(from_);
    if (replicated.empty()) return paths;
    for (int d : DimsToShard(from_, replicated)) {
      const Layout parts = WithPlacement(from_, replicated, Placement::Shard(d));
      AddIfAny(ThenExchange(start, Innermost(parts, replicated).layout), paths);
    }
    if (!(from_.mesh() == target.mesh())) return paths;
    std::vector<Placement> placements = from_.placements();
    std::vector<int> wanted;
    for (int a : replicated) {
      if (!target.placement(a).is_shard()) continue;
      placements[static_cast<size_t>(a)] = target.placement(a);
      wanted.push_back(a);
    }
    if (wanted.empty()) return paths;
    const StatusOr<Layout> parts = from_.With(std::move(placements));
    if (parts.ok()) AddIfAny(ThenExchange(start, Innermost(*parts, wanted).layout), paths);
    return paths;
  }

  void AddReductions(const Path& start, const Layout& target, std::vector<Path>& heads) const {
    const std::vector<int> axes = NamedAs(from_.mesh(), combined_, start.end.mesh());
    heads.push_back(Then(start, Move::Kind::kAllReduce,
                         WithPlacement(start.end, axes, Placement::Replicate()), axes));
    for (int d : DimsToShard(start.end, axes)) {
      const WithAxes parts = Innermost(WithPlacement(start.end, axes, Placement::Shard(d)), axes);
      heads.push_back(Then(start, Move::Kind::kReduceScatter, parts.layout, parts.axes));
    }
    if (from_.mesh() == target.mesh()) AddReduceScatterTo(start, axes, target, heads);
  }

  // Straight into the shards of `target`, where it has any on these axes; the others are reduced
  // after that, when there is less to reduce.
  void AddReduceScatterTo(const Path& start, const std::vector<int>& axes, const Layout& target,
                          std::vector<Path>& heads) const {
    std::vector<Placement> placements = start.end.placements();
    std::vector<int> scattered;
    std::vector<int> reduced;
    for (size_t i = 0; i < axes.size(); ++i) {
      const Placement& wanted = target.placement(combined_[i]);
      (wanted.is_shard() ? scattered : reduced).push_back(axes[i]);
      if (wanted.is_shard()) placements[static_cast<size_t>(axes[i])] = wanted;
    }
    if (scattered.empty()) return;
    const StatusOr<Layout> wanted = start.end.With(std::move(placements));
    if (!wanted.ok()) return;
    const WithAxes parts = Innermost(*wanted, scattered);
    const Path path = Then(start, Move::Kind::kReduceScatter, parts.layout, parts.axes);
    if (reduced.empty()) {
      heads.push_back(path);
      return;
    }
    const std::vector<int> rest = NamedAs(wanted->mesh(), reduced, parts.layout.mesh());
    heads.push_back(Then(path, Move::Kind::kAllReduce,
                         WithPlacement(parts.layout, rest, Placement::Replicate()), rest));
  }

  // Where `mesh`, which has its axes in another order, has these axes of `of`.
  static std::vector<int> NamedAs(const Mesh& of, const std::vector<int>& axes, const Mesh& mesh) {
    std::vector<int> same;
    for (int axis : axes) {
      same.push_back(*mesh.FindAxis(of.axes()[static_cast<size_t>(axis)].name));
    }
    return same;
  }

  // Combined where it is needed, unless one collective does it all within the nodes.
  void AddCombinations(const Layout& target) {
    if (HasSearchedEnough() || combined_.empty()) return;
    const bool is_one_collective = best_.has_value() && best_->moves.size() == 1;
    if (is_one_collective && best_->cost.traffic.nodes.empty()) return;
    for (const Spread spread : {Spread::kDirect, Spread::kForwarded}) {
      std::optional<Combination> combination =
          PlanCombination(from_, target, topology_, spread, most_pieces_);
      effort_ += from_.mesh().size() + target.mesh().size();
      if (!combination.has_value()) {
        effort_ += most_pieces_;
        return;
      }
      effort_ += combination->effort;
      for (const auto& round : combination->exchange.rounds) {
        effort_ += static_cast<int64_t>(round.size());
      }
      Move move{Move::Kind::kCombine, target, {}};
      move.combination = std::make_shared<const Combination>(*std::move(combination));
      Finish(Then({from_, {}}, std::move(move)));
    }
  }

  // Ways from the end of `head` to `target`, and from there to the end.
  void AddTails(const Path& head, const Layout& target) {
    if (HasSearchedEnough() || (best_.has_value() && best_->cost_us <= head.cost_us)) return;
    if (AreEquivalent(head.end, target)) {
      Finish(head);
      return;
    }
    if (const auto axes = GatheredAxes(head.end, target)) {
      Finish(Then(head, Move::Kind::kAllGather, target, *axes));
    }
    for (const Spread spread : {Spread::kDirect, Spread::kForwarded}) {
      if (const auto path = ThenExchange(head, target, spread)) Finish(*path);
    }
    for (const WithAxes& between : LayoutsToGatherFrom(head.end, target)) {
      if (HasSearchedEnough()) return;
      if (AreEquivalent(between.layout, head.end)) continue;
      const auto path = ThenExchange(head, between.layout);
      if (path.has_value()) Finish(Then(*path, Move::Kind::kAllGather, target, between.axes));
    }
  }

  // Layouts with more shards than `target`, which an allgather brings to it.
  static std::vector<WithAxes> LayoutsToGatherFrom(const Layout& from, const Layout& target) {
    std::vector<WithAxes> layouts;
    const std::vector<int> replicated = ReplicatedAxes(target);
    if (replicated.empty()) return layouts;
    const auto add = [&](const std::vector<int>& axes, int d) {
      layouts.push_back(Innermost(WithPlacement(target, axes, Placement::Shard(d)), axes));
    };
    for (int d : DimsToShard(target, replicated)) {
      add(replicated, d);
      if (replicated.size() == 1) continue;
      for (int axis : replicated) add({axis}, d);
    }
    if (!(from.mesh() == target.mesh())) return layouts;
    // What is sharded already along these axes stays where it is.
    std::vector<Placement> placements = target.placements();
    std::vector<int> kept;
    for (int axis : replicated) {
      if (!from.placement(axis).is_shard()) continue;
      placements[static_cast<size_t>(axis)] = from.placement(axis);
      kept.push_back(axis);
    }
    const StatusOr<Layout> parts = target.With(std::move(placements));
    if (parts.ok() && !kept.empty()) layouts.push_back(Innermost(*parts, kept));
    return layouts;
  }

  bool HasSearchedEnough() const {
    return effort_ >= (best_.has_value() ? std::min(kMostEffort, most_effort_) : most_effort_);
  }

  void Finish(const Path& path) {
    Path whole = made_.empty() ? path : Then(path, Move::Kind::kMakePartial, to_);
    if (best_.has_value() && best_->cost_us <= whole.cost_us) return;
    best_ = std::move(whole);
  }

  const int64_t most_effort_;
  const Layout from_;
  const Layout to_;
  const Topology& topology_;
  const CostModel& costs_;
  // What plans with more pieces gain is not worth their time and memory.
  static constexpr int64_t kManyPieces = 1 << 15;
  int64_t most_pieces_ = 0;
  // Others wait meanwhile, and who asks may be hostile. Usual pairs of a thousand ranks take
  // less than a fifth of it.
  static constexpr int64_t kMostEffort = 1 << 20;
  mutable int64_t effort_ = 0;
  std::vector<int> combined_;
  std::vector<int> made_;
  std::optional<Path> best_;
};

}  // namespace

std::string Reshard::Describe() const {
  std::string text;
  const Layout* before = &from;
  for (const Move& move : moves) {
    text += (text.empty() ? "" : ", ") + move.Describe(*before);
    before = &move.to;
  }
  return text.empty() ? "copy" : text;
}

Traffic Reshard::TrafficIn(const Topology& topology) const {
  Traffic traffic;
  const Layout* before = &from;
  for (const Move& move : moves) {
    traffic.Add(CostOf(move, *before, topology, CostModel()).traffic);
    before = &move.to;
  }
  return traffic;
}

StatusOr<Reshard> LowerReshard(const Layout& from, const Layout& to, const Topology& topology,
                               const CostModel& costs, int64_t most_effort) {
  LOCKSTEP_RETURN_IF_ERROR(CheckReshard(from, to));
  if (from.shape().NumElements() == 0) return Reshard{from, to, {}, 0, {}};
  return Lowering(from, to, topology, costs, most_effort).Run();
}

}  // namespace lockstep::plan
