#include "runtime/plan/layout.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep::plan {
namespace {

// Whether these placements, of which that of `axis` has given extents, make a layout.
Status CheckExtents(const Shape& shape, const Mesh& mesh, const std::vector<Placement>& placements,
                    size_t axis) {
  const int dim = placements[axis].dim;
  const std::string& name = mesh.axes()[axis].name;
  const absl::Span<const int64_t> extents = placements[axis].extents->counts();
  const auto size = static_cast<size_t>(mesh.axes()[axis].size);
  if (extents.size() != size) {
    return InvalidArgument("axis \"", name, "\" has ", size, " coordinates, and ", extents.size(),
                           " extents of dimension ", dim, " are given for them");
  }
  int64_t left = shape[dim];
  for (size_t i = 0; i < size; ++i) {
    if (extents[i] < 0) {
      return InvalidArgument("coordinate ", i, " of axis \"", name, "\" has the extent ",
                             extents[i], " of dimension ", dim, ", which is negative");
    }
    // By subtraction, as the sum might overflow.
    if (extents[i] > left) {
      return InvalidArgument("the extents along axis \"", name, "\" add up to more than ",
                             shape[dim], ", which is what dimension ", dim, " of ", shape, " has");
    }
    left -= extents[i];
  }
  if (left != 0) {
    return InvalidArgument("the extents along axis \"", name, "\" add up to ", shape[dim] - left,
                           ", and dimension ", dim, " of ", shape, " has ", shape[dim]);
  }
  for (size_t other = 0; other < placements.size(); ++other) {
    if (other == axis || !placements[other].Shards(dim)) continue;
    return InvalidArgument("axis \"", name, "\" shards dimension ", dim,
                           " by given extents, which it can only do alone, and axis \"",
                           mesh.axes()[other].name,
                           "\" shards it, too; use a mesh that has both "
                           "as one axis, and give an extent for each of its coordinates");
  }
  return OkStatus();
}

}  // namespace

Layout::Layout(const Shape& shape, DType dtype, Mesh mesh, std::vector<Placement> placements)
    : shape_(shape),
      dtype_(dtype),
      mesh_(std::move(mesh)),
      placements_(std::move(placements)),
      largest_tile_(LargestTile()) {}

StatusOr<Layout> Layout::Make(const Shape& shape, DType dtype, Mesh mesh,
                              std::vector<Placement> placements) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  if (shape.NumElements() > kMaxBytes / static_cast<int64_t>(SizeOf(dtype))) {
    return InvalidArgument("a tensor of shape ", shape,
                           " is too large for a layout: the largest has ", kMaxBytes, " bytes");
  }
  if (static_cast<int>(placements.size()) != mesh.num_axes()) {
    return InvalidArgument("the mesh ", mesh.ToString(), " has ", mesh.num_axes(), " axes, and ",
                           placements.size(), " placements are given for them");
  }
  std::optional<Placement> partial;
  for (size_t a = 0; a < placements.size(); ++a) {
    const Placement& placement = placements[a];
    const std::string& axis = mesh.axes()[a].name;
    if (placement.is_shard() && (placement.dim < 0 || placement.dim >= shape.ndim())) {
      return InvalidArgument("axis \"", axis, "\" shards dimension ", placement.dim,
                             " of a tensor of shape ", shape, ", which has the dimensions 0 to ",
                             shape.ndim() - 1);
    }
    if (placement.extents != nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(CheckExtents(shape, mesh, placements, a));
    }
    if (!placement.is_partial()) continue;
    if (!IsArithmetic(dtype) || (dtype == DType::kBool && placement.op == Reduction::kAvg)) {
      return InvalidArgument("axis \"", axis, "\" has partial values to be combined by ",
                             placement.op, ", which is not defined for ", dtype);
    }
    if (partial.has_value() && partial->op != placement.op) {
      return InvalidArgument("axis \"", axis, "\" has partial values for ", placement.op,
                             ", another one for ", partial->op,
                             ": which of them comes first would change the result; reshard one of "
                             "them to replicate or shard before");
    }
    partial = placement;
  }
  return Layout(shape, dtype, std::move(mesh), std::move(placements));
}

Layout Layout::WithoutUnitAxes() const {
  std::vector<Placement> placements;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (mesh_.AxisSize(a) > 1) placements.push_back(placement(a));
  }
  if (placements.empty()) placements.push_back(Placement::Replicate());
  return Layout(shape_, dtype_, mesh_.WithoutUnitAxes(), std::move(placements));
}

Box Layout::TileAt(int index) const {
  return TileWith([&](int axis) { return mesh_.Coordinate(index, axis); });
}

Box Layout::TileWith(absl::FunctionRef<int(int)> coordinate) const {
  Box tile = WholeBox(shape_);
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_shard()) continue;
    const int d = placement(a).dim;
    const Part part = placement(a).PartOf(tile.extents[d], mesh_.AxisSize(a), coordinate(a));
    tile.begin[d] += part.begin;
    tile.extents[d] = part.count;
  }
  return tile;
}

Box Layout::LargestTile() const {
  return TileWith([&](int axis) {
    if (placement(axis).extents == nullptr) return 0;  // the first part is one of the largest
    const absl::Span<const int64_t> counts = placement(axis).extents->counts();
    return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  });
}

int Layout::LayerAt(int index) const {
  int layer = 0;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_partial()) continue;
    layer = layer * mesh_.AxisSize(a) + mesh_.Coordinate(index, a);
  }
  return layer;
}

int Layout::TileNumberAt(int index) const {
  int number = 0;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (!placement(a).is_shard()) continue;
    number = number * mesh_.AxisSize(a) + mesh_.Coordinate(index, a);
  }
  return number;
}

std::vector<int> Layout::PartialAxes() const {
  std::vector<int> axes;
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    if (placement(a).is_partial() && mesh_.AxisSize(a) > 1) axes.push_back(a);
  }
  return axes;
}

Reduction Layout::reduction() const {
  for (const Placement& placement : placements_) {
    if (placement.is_partial()) return placement.op;
  }
  return Reduction::kSum;
}

std::string Layout::ToString() const {
  std::ostringstream text;
  text << dtype_ << shape_ << " on " << mesh_.ToString() << ": ";
  for (int a = 0; a < mesh_.num_axes(); ++a) {
    text << (a == 0 ? "" : ", ") << mesh_.axes()[static_cast<size_t>(a)].name << '='
         << placement(a).ToString();
  }
  return text.str();
}

std::vector<int> NewPartialAxes(const Layout& from, const Layout& to) {
  std::vector<int> axes;
  for (int a : to.PartialAxes()) {
    const bool keeps = from.mesh() == to.mesh() && from.placement(a) == to.placement(a);
    if (!keeps) axes.push_back(a);
  }
  return axes;
}

bool LieAlikeAt(Rank rank, const Layout& a, const Layout& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (!a.PartialAxes().empty() || !b.PartialAxes().empty()) return a == b;
  const std::optional<int> in_a = a.mesh().IndexOf(rank);
  const std::optional<int> in_b = b.mesh().IndexOf(rank);
  if (!in_a.has_value() || !in_b.has_value()) return in_a.has_value() == in_b.has_value();
  return a.TileAt(*in_a) == b.TileAt(*in_b);
}

bool LieAlike(const Layout& a, const Layout& b) {
  if (a == b) return true;
  if (a.mesh().SortedRanks() != b.mesh().SortedRanks()) return false;
  const absl::Span<const Rank> ranks = a.mesh().ranks();
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) { return LieAlikeAt(rank, a, b); });
}

int64_t BytesNewTo(Rank rank, const Layout& from, const Layout& to) {
  const std::optional<int> after = to.mesh().IndexOf(rank);
  if (!after.has_value()) return 0;
  const Box wanted = to.TileAt(*after);
  int64_t elements = wanted.NumElements();
  const std::optional<int> before = from.mesh().IndexOf(rank);
  if (before.has_value() && from.PartialAxes().empty()) {
    elements -= Intersection(wanted, from.TileAt(*before)).NumElements();
  }
  return elements * static_cast<int64_t>(SizeOf(to.dtype()));
}

Status CheckReshard(const Layout& from, const Layout& to) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype()) {
    return InvalidArgument("a reshard keeps shape and dtype, and ", from, " has others than ", to);
  }
  if (to.reduction() != Reduction::kAvg) return OkStatus();
  if (NewPartialAxes(from.WithoutUnitAxes(), to.WithoutUnitAxes()).empty()) return OkStatus();
  return InvalidArgument("a reshard cannot make partial values of an average (", to, ") from ",
                         from,
                         ": no value of the other ranks would leave it what it is; use "
                         "partial(sum)");
}

}  // namespace lockstep::plan
