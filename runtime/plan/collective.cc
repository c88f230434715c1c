#include "runtime/plan/collective.h"

#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/plan/layout_relations.h"

namespace lockstep::plan {
namespace {

// The shape of what the ranks at this coordinate of the axis hold together.
Shape ShapeAt(const Layout& layout, int axis, int coordinate) {
  Shape shape = layout.shape();
  if (!layout.placement(axis).is_shard()) return shape;
  const int d = layout.placement(axis).dim;
  const Mesh& mesh = layout.mesh();
  int64_t extent = 0;
  for (int index = 0; index < mesh.size(); ++index) {
    bool counts = mesh.Coordinate(index, axis) == coordinate;
    for (int a = 0; counts && a < mesh.num_axes(); ++a) {
      counts = a == axis || layout.placement(a).Shards(d) || mesh.Coordinate(index, a) == 0;
    }
    if (counts) extent += layout.TileAt(index).extents[d];
  }
  shape[d] = extent;
  return shape;
}

class Deriving {
 public:
  Deriving(const Collective& collective, const Layout& source, int axis)
      : collective_(collective), source_(source), axis_(axis) {}

  StatusOr<CollectiveLayouts> Run() const {
    switch (collective_.kind) {
      case OperationKind::kAllReduce:
        return Reduced(Placement::Replicate());
      case OperationKind::kReduceScatter:
        return Reduced(Placement::Shard(collective_.dim));
      case OperationKind::kAllGather:
        return Moved(Placement::Replicate());
      case OperationKind::kAllToAll:
        return Moved(Placement::Shard(collective_.dim));
      case OperationKind::kBroadcast:
        return Broadcast();
      default:
        return InvalidArgument(
            "a program has no such operation; it has allreduce, reduce-scatter, allgather, "
            "all-to-all and broadcast");
    }
  }

 private:
  std::vector<Placement> With(const Placement& placement) const {
    std::vector<Placement> placements = source_.placements();
    placements[static_cast<size_t>(axis_)] = placement;
    return placements;
  }

  StatusOr<CollectiveLayouts> Reduced(const Placement& placement) const {
    LOCKSTEP_ASSIGN_OR_RETURN(
        Layout taken_as, Layout::Make(ShapeAt(source_, axis_, 0), source_.dtype(), source_.mesh(),
                                      With(Placement::Partial(collective_.op))));
    LOCKSTEP_RETURN_IF_ERROR(
        Annotate(CheckSameTiles(source_, taken_as), "what is combined has to have equal extents"));
    LOCKSTEP_ASSIGN_OR_RETURN(Layout result, taken_as.With(With(placement)));
    LOCKSTEP_RETURN_IF_ERROR(CheckSideBySide(result));
    return CollectiveLayouts{std::move(taken_as), std::move(result)};
  }

  StatusOr<CollectiveLayouts> Moved(const Placement& placement) const {
    if (!source_.placement(axis_).is_shard()) {
      return InvalidArgument("it takes what the axis has dealt out, and ", source_,
                             " deals nothing out along it");
    }
    if (placement == source_.placement(axis_)) {
      return InvalidArgument("the axis shards dimension ", placement.dim, " already, in ", source_);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckSideBySide(source_));
    LOCKSTEP_ASSIGN_OR_RETURN(Layout result, source_.With(With(placement)));
    LOCKSTEP_RETURN_IF_ERROR(CheckSideBySide(result));
    return CollectiveLayouts{source_, std::move(result)};
  }

  StatusOr<CollectiveLayouts> Broadcast() const {
    const int size = source_.mesh().AxisSize(axis_);
    if (collective_.root < 0 || collective_.root >= size) {
      return InvalidArgument("the axis has the coordinates 0 to ", size - 1, ", and the root is ",
                             collective_.root);
    }
    LOCKSTEP_ASSIGN_OR_RETURN(
        Layout result, Layout::Make(ShapeAt(source_, axis_, collective_.root), source_.dtype(),
                                    source_.mesh(), With(Placement::Replicate())));
    LOCKSTEP_ASSIGN_OR_RETURN(Layout taken_as,
                              result.On(source_.mesh().At(axis_, collective_.root)));
    LOCKSTEP_RETURN_IF_ERROR(CheckSameTiles(source_, taken_as));
    return CollectiveLayouts{std::move(taken_as), std::move(result)};
  }

  Status CheckSideBySide(const Layout& layout) const {
    if (!layout.placement(axis_).is_shard() || AreInnermost(layout, {axis_})) return OkStatus();
    return InvalidArgument(
        "a later axis shards dimension ", layout.placement(axis_).dim, ", too, in ", layout,
        ": the parts along this one do not lie side by side; use a mesh that has "
        "the axis last, or a reshard");
  }

  const Collective& collective_;
  const Layout& source_;
  const int axis_;
};

}  // namespace

std::string Collective::ToString(std::string_view of) const {
  std::ostringstream text;
  const OperationFacts* const facts = FindOperation(static_cast<size_t>(kind));
  text << (facts == nullptr ? "unknown operation" : facts->name) << (of.empty() ? "" : " ") << of
       << " along " << axis;
  if (kind == OperationKind::kReduceScatter || kind == OperationKind::kAllToAll) {
    text << ", dim " << dim;
  }
  if (kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter) {
    text << ", " << op;
  }
  if (kind == OperationKind::kBroadcast) text << " from " << root;
  return text.str();
}

StatusOr<CollectiveLayouts> LayoutsOf(const Collective& collective, const Layout& source) {
  const std::optional<int> axis = source.mesh().FindAxis(collective.axis);
  if (!axis.has_value()) {
    return Annotate(InvalidArgument("the mesh ", source.mesh().ToString(), " has no such axis"),
                    collective.ToString());
  }
  StatusOr<CollectiveLayouts> layouts = Deriving(collective, source, *axis).Run();
  if (!layouts.ok()) return Annotate(layouts.status(), collective.ToString());
  return layouts;
}

Status CheckSameTiles(const Layout& from, const Layout& to) {
  for (int index = 0; index < to.mesh().size(); ++index) {
    const Rank rank = to.mesh().RankAt(index);
    const std::optional<int> old_index = from.mesh().IndexOf(rank);
    if (!old_index.has_value()) {
      return InvalidArgument("rank ", rank, " of ", to, " holds nothing of ", from);
    }
    const Shape old_tile = from.TileAt(*old_index).extents;
    const Shape new_tile = to.TileAt(index).extents;
    if (from.dtype() == to.dtype() && old_tile == new_tile) continue;
    return InvalidArgument("rank ", rank, " holds ", from.dtype(), old_tile, " of ", from,
                           ", and it would hold ", to.dtype(), new_tile, " of ", to);
  }
  return OkStatus();
}

}  // namespace lockstep::plan
