#include "tests/support/random_layouts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace lockstep::support {

using plan::Layout;
using plan::Mesh;
using plan::Placement;

Shape RandomLayouts::AnyShape(bool large) {
  const int ndim = 1 + Below(3);
  std::vector<int64_t> extents;
  for (int d = 0; d < ndim; ++d) {
    extents.push_back(large ? 24 + Below(ndim == 1 ? 4000 : ndim == 2 ? 60 : 12) : Below(10));
  }
  return Shape(absl::MakeConstSpan(extents));
}

Mesh RandomLayouts::AnyMesh(int world) {
  std::vector<Rank> ranks(static_cast<size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (Below(2) == 0) std::shuffle(ranks.begin(), ranks.end(), random_);
  std::vector<plan::MeshAxis> axes;
  int size = 1;
  const int num_axes = 1 + Below(3);
  for (int a = 0; a < num_axes; ++a) {
    const int most = world / size;
    const int extent = 1 + Below(a + 1 == num_axes ? most : std::min(most, 4));
    axes.push_back({std::string(1, static_cast<char>('x' + a)), extent});
    size *= extent;
  }
  const int first = Below(world - size + 1);
  return *Mesh::Make(axes, {ranks.begin() + first, ranks.begin() + first + size});
}

Layout RandomLayouts::AnyLayout(const Shape& shape, const Mesh& mesh, Reduction op) {
  std::vector<Placement> placements;
  for (int a = 0; a < mesh.num_axes(); ++a) {
    const int kind = Below(5);
    if (kind == 0) placements.push_back(Placement::Replicate());
    if (kind >= 1 && kind <= 3) placements.push_back(Placement::Shard(Below(shape.ndim())));
    if (kind == 4) placements.push_back(Placement::Partial(op));
  }
  for (int a = 0; a < mesh.num_axes(); ++a) {
    Placement& placement = placements[static_cast<size_t>(a)];
    const int d = placement.dim;
    const auto sharing = std::count_if(placements.begin(), placements.end(),
                                       [d](const Placement& other) { return other.Shards(d); });
    if (!placement.is_shard() || sharing > 1 || random_extents_() % 4 > 0) continue;
    placement = Placement::Shard(d, AnyExtents(shape[d], mesh.AxisSize(a)));
  }
  return *Layout::Make(shape, DType::kInt32, mesh, std::move(placements));
}

plan::Topology RandomLayouts::AnyTopology(int world) {
  const int nodes = 1 + Below(4);
  std::vector<int> of;
  for (int rank = 0; rank < world; ++rank) {
    of.push_back(Below(3) > 0 ? rank * nodes / world : Below(nodes));
  }
  return plan::Topology(of);
}

std::vector<int64_t> RandomLayouts::AnyExtents(int64_t count, int size) {
  std::vector<int64_t> ends;
  for (int i = 0; i + 1 < size; ++i) {
    ends.push_back(static_cast<int64_t>(random_extents_() % static_cast<uint64_t>(count + 1)));
  }
  // One coordinate has nothing.
  if (ends.size() > 1 && random_extents_() % 2 == 0) ends.back() = ends.front();
  ends.push_back(count);
  std::sort(ends.begin(), ends.end());
  std::adjacent_difference(ends.begin(), ends.end(), ends.begin());
  return ends;
}

}  // namespace lockstep::support
