#include "runtime/plan/passes/grouped_exchanges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/lowering/teams.h"

namespace lockstep::plan {
namespace {

// What is packed in one collective: of each that is in it, a part for each member of the team, each
// of which may be a copy.
constexpr size_t kMostParts = 1024;

size_t LargestTeam(const Reshard& reshard) {
  size_t largest = 0;
  for (const auto& teams : reshard.teams) {
    for (const Team& team : *teams) largest = std::max(largest, team.size());
  }
  return largest;
}

bool Combines(const Reshard& reshard) { return !reshard.from.PartialAxes().empty(); }

// Their collectives are of the same kinds, one by one, among the same teams.
bool MeetAlike(const Reshard& a, const Reshard& b) {
  if (a.from.dtype() != b.from.dtype() || a.moves.size() != b.moves.size()) return false;
  if (Combines(a) != Combines(b) || a.from.reduction() != b.from.reduction()) return false;
  for (size_t i = 0; i < a.moves.size(); ++i) {
    if (a.moves[i].kind != b.moves[i].kind) return false;
    if (CountCollectives(a.moves[i]) != CountCollectives(b.moves[i])) return false;
  }
  return std::equal(
      a.teams.begin(), a.teams.end(), b.teams.begin(), b.teams.end(),
      [](const auto& one, const auto& other) { return one == other || *one == *other; });
}

class Grouping {
 public:
  Grouping(const Topology& topology, const CostModel& costs, LoweredProgram& lowered)
      : topology_(topology), costs_(costs), lowered_(lowered) {}

  void Run() {
    size_t first = 0;
    for (size_t i = 1; i < lowered_.ops.size(); ++i) {
      if (!Joins(first, i)) {
        first = i;
        continue;
      }
      LoweredOp& op = lowered_.ops[i];
      op.with_previous = true;
      const auto where = [&](size_t n) {
        return lowered_.program->ops()[lowered_.ops[n].op].where;
      };
      lowered_.notes.push_back(where(i) + ": exchanged together with what " + where(first) +
                               " exchanges");
      lowered_.cost_us -= StepMicros(*op.reshard) - PackingMicros(*op.reshard);
    }
  }

 private:
  bool Joins(size_t first, size_t i) const {
    const LoweredOp& op = lowered_.ops[i];
    const LoweredOp& leader = lowered_.ops[first];
    if (!op.is_exchange() || !leader.is_exchange()) return false;
    if ((i - first + 1) * LargestTeam(*leader.reshard) > kMostParts) return false;
    if (!MeetAlike(*leader.reshard, *op.reshard)) return false;
    for (const Reshard* const reshard : {leader.reshard.get(), op.reshard.get()}) {
      if (PackingMicros(*reshard) >= StepMicros(*reshard)) return false;
    }
    for (size_t other = first; other < i; ++other) {
      if (DependOnEachOther(lowered_.ops[other], op)) return false;
    }
    return true;
  }

  ValueId Home(ValueId id) const { return lowered_.HomeOf(id); }
  bool DependOnEachOther(const LoweredOp& a, const LoweredOp& b) const {
    const ValueId made = Home(a.result);
    return made == Home(b.source) || made == Home(b.result) || Home(a.source) == Home(b.result);
  }

  // What the busiest rank copies to and fro.
  double PackingMicros(const Reshard& reshard) const {
    const int64_t elements =
        reshard.from.largest_tile().NumElements() + reshard.to.largest_tile().NumElements();
    return static_cast<double>(elements) * static_cast<double>(SizeOf(reshard.from.dtype())) *
           static_cast<double>(reshard.teams.size()) * costs_.copy_us_per_byte;
  }
  // What its collectives take that move nothing.
  double StepMicros(const Reshard& reshard) const {
    double micros = 0;
    for (const auto& teams : reshard.teams) {
      const bool crosses = std::any_of(teams->begin(), teams->end(), [&](const Team& team) {
        return std::any_of(team.begin(), team.end(), [&](Rank rank) {
          return topology_.NodeOf(rank) != topology_.NodeOf(team.front());
        });
      });
      micros += crosses ? costs_.network_step_us : costs_.step_us;
    }
    return micros;
  }

  const Topology& topology_;
  const CostModel& costs_;
  LoweredProgram& lowered_;
};

}  // namespace

void GroupExchanges(const Topology& topology, const CostModel& costs, LoweredProgram* lowered) {
  Grouping(topology, costs, *lowered).Run();
}

}  // namespace lockstep::plan
