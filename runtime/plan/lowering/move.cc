#include "runtime/plan/lowering/move.h"

#include <algorithm>
#include <sstream>

namespace lockstep::plan {
namespace {

double BytesOf(const Box& box, const Layout& layout) {
  return static_cast<double>(box.NumElements()) * static_cast<double>(SizeOf(layout.dtype()));
}

// What the busiest rank copies, apart from what the collective itself writes.
double CopiedBytes(const Move& move, const Layout& from) {
  const double before = BytesOf(from.largest_tile(), from);
  const double after = BytesOf(move.to.largest_tile(), move.to);
  switch (move.kind) {
    case Move::Kind::kExchange:
    case Move::Kind::kCombine:
      return before + after;  // packed and unpacked
    case Move::Kind::kAllGather:
    case Move::Kind::kReduceScatter: {
      // Nothing if the parts lie one after the other: dimension 0 is dealt out.
      const Layout& parts = move.kind == Move::Kind::kAllGather ? from : move.to;
      const Layout& whole = move.kind == Move::Kind::kAllGather ? move.to : from;
      for (int axis : move.axes) {
        for (int d = 0; d < parts.placement(axis).dim; ++d) {
          if (whole.largest_tile().extents[d] > 1) return std::max(before, after);
        }
      }
      return 0;
    }
    case Move::Kind::kAllReduce:
      return 0;
    case Move::Kind::kMakePartial:
      return after;
  }
  return 0;
}

void AddCombining(const Combination& combination, double element_bytes, const Topology& topology,
                  Traffic& traffic) {
  for (const CombiningTeam& team : combination.teams) {
    std::vector<double> parts;
    for (int64_t count : team.Counts()) parts.push_back(static_cast<double>(count) * element_bytes);
    AddReduceScatter(team.ranks, parts, topology, traffic);
  }
}

void AddCollective(const Move& move, const Layout& from, const Topology& topology,
                   Traffic& traffic) {
  // The axes are those of the layout with the smaller tiles.
  const Layout& whose = move.kind == Move::Kind::kAllGather ? from : move.to;
  std::vector<Rank> ranks;
  std::vector<double> parts;
  for (const std::vector<int>& team : whose.mesh().Slices(move.axes)) {
    ranks.clear();
    parts.clear();
    for (int index : team) {
      ranks.push_back(whose.mesh().RankAt(index));
      parts.push_back(BytesOf(whose.TileAt(index), whose));
    }
    if (move.kind == Move::Kind::kAllGather) {
      AddAllGather(ranks, parts, topology, traffic);
    } else if (move.kind == Move::Kind::kReduceScatter) {
      AddReduceScatter(ranks, parts, topology, traffic);
    } else {
      AddAllReduce(ranks, parts.front(), topology, traffic);
    }
  }
}

// The exchange in it, if there is one.
const Exchange* ExchangeIn(const Move& move) {
  if (move.kind == Move::Kind::kExchange) return move.exchange.get();
  return move.kind == Move::Kind::kCombine ? &move.combination->exchange : nullptr;
}

std::string DescribeRounds(const std::string& text, size_t rounds) {
  return rounds < 2 ? text : text + " in " + std::to_string(rounds) + " rounds";
}

}  // namespace

std::string Move::Describe(const Layout& before) const {
  std::ostringstream text;
  switch (kind) {
    case Kind::kExchange:
      if (exchange->rounds.empty()) return "slice";
      return DescribeRounds("exchange", exchange->rounds.size());
    case Kind::kCombine: {
      const size_t rounds = combination->exchange.rounds.size();
      const std::string what = "combine where needed";
      return rounds == 0 ? what : DescribeRounds(what + " and exchange", rounds);
    }
    case Kind::kMakePartial:
      return "make partial";
    case Kind::kAllGather:
      text << "allgather";
      break;
    case Kind::kReduceScatter:
      text << "reduce-scatter";
      break;
    case Kind::kAllReduce:
      text << "allreduce";
      break;
  }
  const Mesh& mesh = kind == Kind::kAllGather ? before.mesh() : to.mesh();
  text << " along ";
  for (size_t i = 0; i < axes.size(); ++i) {
    text << (i == 0 ? "" : ", ") << mesh.axes()[static_cast<size_t>(axes[i])].name;
  }
  return text.str();
}

void MoveCost::Add(const MoveCost& next) {
  traffic.Add(next.traffic);
  overhead_us += next.overhead_us;
  steps_us += next.steps_us;
}

double MoveCost::Microseconds(const CostModel& costs) const {
  return overhead_us + (costs.steps_wait ? steps_us : costs.MicrosecondsFor(traffic));
}

MoveCost CostOf(const Move& move, const Layout& from, const Topology& topology,
                const CostModel& costs) {
  MoveCost cost;
  cost.overhead_us = CopiedBytes(move, from) * costs.copy_us_per_byte;
  if (move.kind == Move::Kind::kMakePartial) return cost;
  const auto element_bytes = static_cast<double>(SizeOf(from.dtype()));
  const auto end_step = [&](const Traffic& step) {
    cost.overhead_us += costs.LatencyOf(step);
    cost.steps_us += costs.MicrosecondsFor(step);
    cost.traffic.Add(step);
  };
  const Exchange* const exchange = ExchangeIn(move);
  Traffic first;
  if (move.kind == Move::Kind::kCombine) {
    AddCombining(*move.combination, element_bytes, topology, first);
  } else if (exchange == nullptr) {
    AddCollective(move, from, topology, first);
  }
  if (move.kind != Move::Kind::kExchange) end_step(first);
  if (exchange == nullptr) return cost;
  for (const std::vector<Piece>& round : exchange->rounds) {
    Traffic step;
    AddRound(round, element_bytes, topology, step);
    end_step(step);
  }
  return cost;
}

}  // namespace lockstep::plan
