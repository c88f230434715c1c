#include "runtime/plan/move.h"

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

}  // namespace

std::string Move::Describe(const Layout& before) const {
  std::ostringstream text;
  switch (kind) {
    case Kind::kExchange:
      if (exchange->rounds.empty()) return "slice";
      text << "exchange";
      if (exchange->rounds.size() > 1) text << " in " << exchange->rounds.size() << " rounds";
      return text.str();
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

Traffic TrafficOf(const Move& move, const Layout& from, const Topology& topology) {
  Traffic traffic;
  if (move.kind == Move::Kind::kMakePartial) return traffic;
  if (move.kind == Move::Kind::kExchange) {
    for (const std::vector<Piece>& round : move.exchange->rounds) {
      traffic.Add(RoundTraffic(round, static_cast<double>(SizeOf(from.dtype())), topology));
    }
    return traffic;
  }
  // The axes are those of the layout with the smaller tiles.
  const Layout& whose = move.kind == Move::Kind::kAllGather ? from : move.to;
  for (const std::vector<int>& team : whose.mesh().Slices(move.axes)) {
    std::vector<Rank> ranks;
    std::vector<double> parts;
    for (int index : team) {
      ranks.push_back(whose.mesh().RankAt(index));
      parts.push_back(BytesOf(whose.TileAt(index), whose));
    }
    if (move.kind == Move::Kind::kAllGather) {
      traffic.Add(AllGatherTraffic(ranks, parts, topology));
    } else if (move.kind == Move::Kind::kReduceScatter) {
      traffic.Add(ReduceScatterTraffic(ranks, parts, topology));
    } else {
      traffic.Add(AllReduceTraffic(ranks, parts.front(), topology));
    }
  }
  return traffic;
}

double MicrosecondsOf(const Move& move, const Layout& from, const Topology& topology,
                      const CostModel& costs) {
  const double copied = CopiedBytes(move, from) * costs.copy_us_per_byte;
  if (move.kind == Move::Kind::kMakePartial) return copied;
  if (move.kind != Move::Kind::kExchange) {
    return copied + costs.MicrosecondsFor(TrafficOf(move, from, topology), 0);
  }
  double cost = copied;
  for (const std::vector<Piece>& round : move.exchange->rounds) {
    const auto element_bytes = static_cast<double>(SizeOf(from.dtype()));
    cost += costs.MicrosecondsFor(RoundTraffic(round, element_bytes, topology), 0);
  }
  return cost;
}

}  // namespace lockstep::plan
