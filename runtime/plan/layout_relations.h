// What layouts have to do with each other: which ones a collective leads from and to.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/plan/layout.h"

namespace lockstep::plan {

// A layout, and some axes of its mesh.
struct WithAxes {
  Layout layout;
  std::vector<int> axes;
};

// `layout` with another placement on these axes, which must be possible.
Layout WithPlacement(const Layout& layout, const std::vector<int>& axes,
                     const Placement& placement);

// These axes shard, and what a slice of the mesh along them holds is together what one rank would
// without them: no other axis deals out the same dimension after one of them.
bool AreInnermost(const Layout& layout, const std::vector<int>& axes);

// `layout` with these axes innermost: if need be, on a mesh with the same ranks at the same places,
// which has these axes last. Their slices have then what an allgather or reduce-scatter deals in.
WithAxes Innermost(const Layout& layout, const std::vector<int>& axes);

// Each rank holds the same in both.
bool AreEquivalent(const Layout& a, const Layout& b);

// The axes of `from` whose shards an allgather makes replicas, which is then `to`; none if that
// cannot be. `from` may have its axes in another order.
std::optional<std::vector<int>> GatheredAxes(const Layout& from, const Layout& to);

// The axes of more than one rank that replicate.
std::vector<int> ReplicatedAxes(const Layout& layout);

// The dimensions that these axes of `layout` could deal out for a while: the longest, four at most,
// so that lowering takes no longer for tensors of many dimensions. Not those that another axis
// shards by given extents, which it does alone.
std::vector<int> DimsToShard(const Layout& layout, const std::vector<int>& axes);

}  // namespace lockstep::plan
