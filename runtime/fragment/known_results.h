// What the results of a call are, where that is known before the call: both sides of a call tell it
// by themselves, and have the same.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"

namespace lockstep::fragment {

struct KnownResult {
  // On each worker, by index. One that does not call has no rows or columns of what is put
  // together, nothing of what each worker keeps, and all of what is combined otherwise.
  std::vector<Shape> shapes;
  std::optional<plan::Layout> layout;  // none: each worker keeps its own
};

// kInvalidArgument, with the result's number: the fragment does not state its shape, and the caller
// does not give it; or the errors of PlacedCall::ResultLayout().
StatusOr<KnownResult> DescribeResult(const PlacedCall& call, int result);

}  // namespace lockstep::fragment
