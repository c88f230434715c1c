// How what workers are given for one call compares: whether it differs, and in which order it lies.
//
// Of a call whose arguments are placed. Threads: any.
#pragma once

#include <optional>
#include <utility>

#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"

namespace lockstep::fragment {

// Whether any of its dimensions is dealt out, if only to one worker.
bool IsDealtOut(const plan::Layout& layout);
bool IsDealtOutAlong(const plan::Layout& layout, int dimension);
// Whether its values are partial along any axis, if only of one worker.
bool IsPartial(const plan::Layout& layout);

// Whether the argument is split, has partial values, or is each worker's own: whether, as a rule,
// it differs from worker to worker.
bool DiffersByWorker(const PlacedCall& call, int argument);

// Two workers (by index) that call, and are given the same of all arguments: what is added up, or
// put together, would count it twice. None: there are no such.
std::optional<std::pair<int, int>> WorkersGivenTheSame(const PlacedCall& call);

// An argument whose parts do not follow one another as the workers do that have them. None: there
// is none.
std::optional<int> ArgumentOutOfOrder(const PlacedCall& call);

}  // namespace lockstep::fragment
