// Splits and combines: how a call of a fragment says what each worker gets, and what its results
// mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/reduction.h"
#include "runtime/base/status.h"
#include "runtime/plan/placement.h"

namespace lockstep::fragment {

// The numeric values are part of the wire format.
enum class Split : uint8_t {
  kRows = 0,      // dimension 0 is dealt out
  kColumns = 1,   // dimension 1 is
  kNone = 2,      // each worker has all of it
  kAsPlaced = 3,  // each worker has what it has
};
inline constexpr int kSplitCount = 4;

enum class Combine : uint8_t {
  kRows = 0,     // the workers' results are parts of one tensor: one below the other
  kColumns = 1,  // ... or side by side
  kAdd = 2,      // they are addends (factors, ...), which are reduced when the value is needed
  kMul = 3,
  kMin = 4,
  kMax = 5,
  kNone = 6,  // each worker keeps its own; all have the same if nothing is split
};
inline constexpr int kCombineCount = 7;

// "rows", "columns", "none", "placed"
std::string_view Name(Split split);
// "rows", "columns", "add", "mul", "min", "max", "none"
std::string_view Name(Combine combine);
// kInvalidArgument lists the names that exist.
StatusOr<Split> ParseSplit(std::string_view name);
StatusOr<Combine> ParseCombine(std::string_view name);

// How the workers, on a mesh of one axis, then have the tensor. None: as it is.
std::optional<plan::Placement> PlacementFor(Split split);
// None: of kNone, where it depends on the arguments.
std::optional<plan::Placement> PlacementFor(Combine combine);

// The dimension that is dealt out, or put together; none: another kind.
std::optional<int> DimensionOf(Split split);
std::optional<int> DimensionOf(Combine combine);
// How values are combined; none: another kind.
std::optional<Reduction> ReductionOf(Combine combine);

}  // namespace lockstep::fragment
