#include "runtime/plan/layout_relations.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::plan {

Layout WithPlacement(const Layout& layout, const std::vector<int>& axes,
                     const Placement& placement) {
  std::vector<Placement> placements = layout.placements();
  for (int axis : axes) placements[static_cast<size_t>(axis)] = placement;
  return *layout.With(std::move(placements));
}

bool AreInnermost(const Layout& layout, const std::vector<int>& axes) {
  for (int axis : axes) {
    if (!layout.placement(axis).is_shard()) return false;
    for (int later = axis + 1; later < layout.mesh().num_axes(); ++later) {
      const bool listed = std::find(axes.begin(), axes.end(), later) != axes.end();
      if (!listed && layout.placement(later).Shards(layout.placement(axis).dim)) return false;
    }
  }
  return true;
}

WithAxes Innermost(const Layout& layout, const std::vector<int>& axes) {
  if (AreInnermost(layout, axes)) return {layout, axes};
  std::vector<int> order;
  for (int a = 0; a < layout.mesh().num_axes(); ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) order.push_back(a);
  }
  const auto first = static_cast<int>(order.size());
  order.insert(order.end(), axes.begin(), axes.end());
  std::vector<Placement> placements;
  for (int a : order) placements.push_back(layout.placement(a));
  std::vector<int> last(axes.size());
  std::iota(last.begin(), last.end(), first);
  return {*Layout::Make(layout.shape(), layout.dtype(), layout.mesh().WithAxisOrder(order),
                        std::move(placements)),
          std::move(last)};
}

bool AreEquivalent(const Layout& a, const Layout& b) {
  if (a == b) return true;
  if (a.mesh().size() != b.mesh().size()) return false;
  for (int index = 0; index < a.mesh().size(); ++index) {
    const std::optional<int> other = b.mesh().IndexOf(a.mesh().RankAt(index));
    if (!other.has_value() || a.LayerAt(index) != b.LayerAt(*other) ||
        !(a.TileAt(index) == b.TileAt(*other))) {
      return false;
    }
  }
  return true;
}

std::optional<std::vector<int>> GatheredAxes(const Layout& from, const Layout& to) {
  std::vector<int> axes;
  for (int a = 0; a < from.mesh().num_axes(); ++a) {
    const auto other = to.mesh().FindAxis(from.mesh().axes()[static_cast<size_t>(a)].name);
    if (!other.has_value()) return std::nullopt;
    if (from.placement(a).is_shard() && to.placement(*other).is_replicate()) axes.push_back(a);
  }
  if (axes.empty() || !AreInnermost(from, axes)) return std::nullopt;
  std::vector<Placement> gathered = from.placements();
  for (int axis : axes) gathered[static_cast<size_t>(axis)] = Placement::Replicate();
  if (!AreEquivalent(*from.With(std::move(gathered)), to)) return std::nullopt;
  return axes;
}

std::vector<int> ReplicatedAxes(const Layout& layout) {
  std::vector<int> axes;
  for (int a = 0; a < layout.mesh().num_axes(); ++a) {
    if (layout.mesh().AxisSize(a) > 1 && layout.placement(a).is_replicate()) axes.push_back(a);
  }
  return axes;
}

std::vector<int> DimsToShard(const Layout& layout, const std::vector<int>& axes) {
  constexpr size_t kMost = 4;
  const Shape& shape = layout.shape();
  std::vector<int> dims(static_cast<size_t>(shape.ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  for (int a = 0; a < layout.mesh().num_axes(); ++a) {
    if (layout.placement(a).extents == nullptr) continue;
    const bool listed = std::find(axes.begin(), axes.end(), a) != axes.end();
    if (!listed) std::erase(dims, layout.placement(a).dim);
  }
  std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) { return shape[a] > shape[b]; });
  dims.resize(std::min(dims.size(), kMost));
  return dims;
}

}  // namespace lockstep::plan
