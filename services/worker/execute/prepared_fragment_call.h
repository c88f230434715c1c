// A call of a fragment, as one rank does it: what each of its arguments has to be, and what its
// results are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/registers/register_file.h"

namespace lockstep::worker {

// Immutable. Threads: any.
struct PreparedFragmentCall {
  struct Argument {
    DType dtype = DType::kFloat32;
    Shape tile;    // of this rank
    Shape offset;  // where that begins in the whole tensor
    Shape whole;
    registers::LayoutPtr layout;  // null: each rank has a tensor of its own
  };
  struct Result {
    DType dtype = DType::kFloat32;
    Shape shape;                  // on this rank
    registers::LayoutPtr layout;  // null: each rank keeps its own
    // What a rank that does not call contributes to what is combined.
    std::optional<std::array<std::byte, 8>> identity;
  };

  std::vector<Argument> arguments;
  std::vector<Result> results;
  // Whether this rank has a part of all that is dealt out.
  bool calls = true;

  // The part of the rank with that index. Deterministic, so that all ranks have the same layouts.
  // The errors of fragment::DescribeResult().
  static StatusOr<PreparedFragmentCall> Make(const fragment::PlacedCall& call, int index);

  size_t result_bytes() const;
};

}  // namespace lockstep::worker
