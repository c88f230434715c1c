// Collectives along one axis of a mesh, which a program asks for by name: what they make of a
// tensor with a layout. Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/operations.h"
#include "runtime/base/reduction.h"
#include "runtime/base/status.h"
#include "runtime/plan/layout.h"

namespace lockstep::plan {

// One collective in each slice of the mesh along `axis`, of what lies on its ranks:
//
//   kAllReduce      the tiles are contributions, whatever the axis did; their combination is on all
//   kReduceScatter  the same, and dimension `dim` of it is dealt out, as evenly as possible
//   kAllGather      the axis shards, by given extents or evenly; all of it is on all
//   kAllToAll       the axis shards; it shards dimension `dim` instead, as evenly as possible
//   kBroadcast      the tile at coordinate `root` is on all
struct Collective {
  OperationKind kind = OperationKind::kAllReduce;
  std::string axis;
  int dim = 0;
  Reduction op = Reduction::kSum;
  int root = 0;
  bool operator==(const Collective&) const = default;

  // "allreduce along x, sum", or "allreduce y along x, sum", if y is what it is done to;
  // "all-to-all along x, dim 1"; "broadcast along x from 3"
  std::string ToString(std::string_view of = "") const;
};

// A collective takes the tiles of its source for those of another layout, from which its result
// comes: tiles that are combined are partial values, whatever they were before.
struct CollectiveLayouts {
  Layout taken_as;  // of a broadcast: on the mesh of the ranks at its root
  Layout result;
};

// kInvalidArgument says why the collective cannot be: another kind than those above; an axis, a
// dimension or a coordinate that there is not; a reduction that Layout::Make() refuses;
// contributions of different extents; nothing dealt out where shards are taken; parts that do not
// lie side by side, because a later axis shards the same dimension.
StatusOr<CollectiveLayouts> LayoutsOf(const Collective& collective, const Layout& source);

// Whether each rank of `to` has, by `from`, a tile of the same dtype and extents: kInvalidArgument
// names the first rank that does not, and both tiles.
Status CheckSameTiles(const Layout& from, const Layout& to);

}  // namespace lockstep::plan
