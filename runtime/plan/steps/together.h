// Collectives of one rank that are done as one: packed, exchanged, unpacked.
#pragma once

#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/plan/steps/step.h"

namespace lockstep::plan {

struct Together {
  CollectiveStep step;
  // For each of the collectives: the copies before and after.
  std::vector<std::vector<CopyStep>> before;
  std::vector<std::vector<CopyStep>> after;
};

// `collectives` are of one kind, reduction and team, and their buffers of one dtype; none needs
// what another one makes. For each member, what it gets of the first comes before what it gets of
// the second: each is combined, or gathered, as it would be alone. `new_buffer(elements)` makes a
// buffer of that dtype.
Together DoTogether(const std::vector<CollectiveStep>& collectives,
                    absl::FunctionRef<int(int64_t)> new_buffer);

}  // namespace lockstep::plan
