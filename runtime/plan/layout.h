// Layout: which part of a tensor lies on which rank of a mesh.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/reduction.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/box.h"
#include "runtime/plan/mesh.h"
#include "runtime/plan/placement.h"

namespace lockstep::plan {

// A tensor's shape and dtype, and a placement for each axis of a mesh.
//
// Several axes may shard one dimension: the first of them deals it out (EvenPart), the next deals
// out each of these parts, and so on. So the parts that the last one makes are neighbours. An axis
// with given extents shards its dimension alone.
//
// Immutable. Threads: any.
class Layout {
 public:
  // The largest tensor: what all ranks of the largest mesh move of it can be counted in 64 bits.
  static constexpr int64_t kMaxBytes = int64_t{1} << 46;

  // kInvalidArgument says which axis is wrong, and why: not one placement for each axis, a
  // dimension that the tensor does not have, extents that do not add up to it, or not one for each
  // coordinate, another axis that shards the same dimension, a reduction that its dtype does not
  // have, or partial values of two reductions, whose order would matter; a shape that
  // Shape::Validate() refuses, or one of more than kMaxBytes.
  static StatusOr<Layout> Make(const Shape& shape, DType dtype, Mesh mesh,
                               std::vector<Placement> placements);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<Placement>& placements() const { return placements_; }
  const Placement& placement(int axis) const { return placements_[static_cast<size_t>(axis)]; }

  // This layout with other placements, or another mesh; the errors of Make().
  StatusOr<Layout> With(std::vector<Placement> placements) const {
    return Make(shape_, dtype_, mesh_, std::move(placements));
  }
  StatusOr<Layout> On(Mesh mesh) const { return Make(shape_, dtype_, mesh, placements_); }

  // Without the axes of one rank, which deal nothing out: each rank holds what it held.
  Layout WithoutUnitAxes() const;

  // What the member with this index of the mesh holds.
  Box TileAt(int index) const;
  // The largest of all tiles: no member has more along any dimension.
  const Box& largest_tile() const { return largest_tile_; }
  // Which of the tensors that are combined into it the member has: its place along all axes with
  // partial values, in row-major order. 0 without such axes.
  int LayerAt(int index) const;
  // Its place along all axes that shard: members of one layer with the same tile number hold the
  // same tile, and those with others hold nothing in common.
  int TileNumberAt(int index) const;

  // The axes (of more than one rank) with partial values, ascending.
  std::vector<int> PartialAxes() const;
  // That of the axes with partial values; kSum without any.
  Reduction reduction() const;

  // "float32[8, 6] on x=2,y=2 {0, 1, 2, 3}: x=shard(0), y=replicate"
  std::string ToString() const;
  bool operator==(const Layout&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Layout& layout) {
    return out << layout.ToString();
  }

 private:
  Layout(const Shape& shape, DType dtype, Mesh mesh, std::vector<Placement> placements);

  Box TileWith(absl::FunctionRef<int(int)> coordinate) const;  // coordinate(axis)
  Box LargestTile() const;

  Shape shape_;
  DType dtype_;
  Mesh mesh_;
  std::vector<Placement> placements_;
  Box largest_tile_;
};

// The axes of `to` with partial values that `from` does not have along the same axis of the same
// mesh. Of layouts without axes of one rank.
std::vector<int> NewPartialAxes(const Layout& from, const Layout& to);

// Whether each rank has the same of the tensor by both, whatever the meshes are called. Of partial
// values that is not said: those of one layout are another's only if the layouts are the same.
bool LieAlike(const Layout& a, const Layout& b);
// The same for one rank.
bool LieAlikeAt(Rank rank, const Layout& a, const Layout& b);

// Of what `rank` has by `to`, the bytes that it does not have by `from`: all, of values that are
// partial there. 0, where it has none of it.
int64_t BytesNewTo(Rank rank, const Layout& from, const Layout& to);

// Whether a tensor can be brought from one layout to the other: kInvalidArgument says why not:
// other shapes or dtypes, or new partial values of an average, which no value of the other ranks
// leaves what it is.
Status CheckReshard(const Layout& from, const Layout& to);

}  // namespace lockstep::plan
