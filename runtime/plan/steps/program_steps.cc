#include "runtime/plan/steps/program_steps.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "runtime/plan/steps/buffer_places.h"
#include "runtime/plan/steps/make_steps.h"
#include "runtime/plan/steps/shared_arena.h"

namespace lockstep::plan {
namespace {

// In members of teams: what the steps of a rank count towards kMaxStepsOfSameOffsets.
constexpr size_t kMembersOfAStep = 128;
size_t MembersOf(const ProgramSteps& steps) {
  size_t members = steps.steps.size() * kMembersOfAStep;
  for (const ProgramStep& step : steps.steps) {
    const auto* const collective = std::get_if<CollectiveStep>(&step.what);
    if (collective != nullptr) members += collective->team.size();
  }
  return members;
}

// Nothing: `rank` has no part in it, or all ranks together have too many steps.
StatusOr<std::optional<SharedArena>> ShareArena(const LoweredProgram& lowered, Rank rank,
                                                const ExpandOptions& options,
                                                const std::function<bool()>& is_given_up) {
  const std::vector<Rank> ranks = lowered.program->Ranks();
  if (!std::binary_search(ranks.begin(), ranks.end(), rank)) return std::nullopt;
  SharedArena shared;
  size_t members = 0;
  for (const Rank one : ranks) {
    LOCKSTEP_ASSIGN_OR_RETURN(StepsWithoutPlaces made,
                              MakeSteps(lowered, one, options, is_given_up));
    BuffersInArena(lowered, options, &made).AddTo(&shared);
    members += MembersOf(made.steps);
    if (members / kMembersOfAStep > kMaxStepsOfSameOffsets) return std::nullopt;
  }
  if (!shared.Place(kBufferAlignment, is_given_up)) return Aborted("the program is given up");
  return shared;
}

}  // namespace

std::string LinesOf(const Program& program, const ProgramStep& step) {
  std::string lines = program.ops()[step.op].where;
  for (const size_t op : step.together) {
    const std::string& where = program.ops()[op].where;
    if (!where.empty()) lines += (lines.empty() ? "" : ", ") + where;
  }
  return lines;
}

ProgramSteps ExpandProgram(const LoweredProgram& lowered, Rank rank, const ExpandOptions& options) {
  return *ExpandProgram(lowered, rank, options, nullptr);
}

StatusOr<ProgramSteps> ExpandProgram(const LoweredProgram& lowered, Rank rank,
                                     const ExpandOptions& options,
                                     const std::function<bool()>& is_given_up) {
  const std::function<bool()> never = [] { return false; };
  const std::function<bool()>& asked = is_given_up ? is_given_up : never;
  std::optional<SharedArena> shared;
  if (options.same_offsets) {
    LOCKSTEP_ASSIGN_OR_RETURN(shared, ShareArena(lowered, rank, options, asked));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(StepsWithoutPlaces made, MakeSteps(lowered, rank, options, asked));
  BuffersInArena buffers(lowered, options, &made);
  if (shared.has_value()) {
    buffers.PlaceAsIn(*shared);
  } else if (!buffers.Place(asked)) {
    return Aborted("the program is given up");
  }
  return std::move(made.steps);
}

}  // namespace lockstep::plan
