#include "runtime/plan/lowering/tile_index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::plan {

std::vector<HeldTile> TilesOf(const Layout& layout) {
  std::map<std::pair<int, int>, HeldTile> tiles;
  for (int index = 0; index < layout.mesh().size(); ++index) {
    const int layer = layout.LayerAt(index);
    const int number = layout.TileNumberAt(index);
    HeldTile& tile = tiles[{layer, number}];
    if (tile.ranks.empty()) tile = {layout.TileAt(index), layer, number, {}};
    tile.ranks.push_back(layout.mesh().RankAt(index));
  }
  std::vector<HeldTile> result;
  for (auto& [key, tile] : tiles) {
    if (tile.box.IsEmpty()) continue;
    std::sort(tile.ranks.begin(), tile.ranks.end());
    result.push_back(std::move(tile));
  }
  return result;
}

TileIndex::TileIndex(const Layout& layout) : dims_(static_cast<size_t>(layout.shape().ndim())) {
  for (size_t d = 0; d < dims_.size(); ++d) {
    dims_[d] = {{0, layout.shape()[static_cast<int>(d)], 0}};
  }
  // As Layout::TileNumberAt() counts.
  for (int a = 0; a < layout.mesh().num_axes(); ++a) {
    if (!layout.placement(a).is_shard()) continue;
    const int size = layout.mesh().AxisSize(a);
    for (std::vector<PartOfDim>& parts : dims_) {
      for (PartOfDim& part : parts) part.number *= size;
    }
    Deal(dims_[static_cast<size_t>(layout.placement(a).dim)], layout.placement(a), size);
  }
}

void TileIndex::ForEachOverlapping(const Box& box, absl::FunctionRef<void(int)> visit) const {
  std::vector<int> numbers = {0};
  for (size_t d = 0; d < dims_.size(); ++d) {
    const int64_t begin = box.begin[static_cast<int>(d)];
    const int64_t end = begin + box.extents[static_cast<int>(d)];
    auto part = std::partition_point(dims_[d].begin(), dims_[d].end(), [&](const PartOfDim& other) {
      return other.begin + other.count <= begin;
    });
    std::vector<int> more;
    for (; part != dims_[d].end() && part->begin < end; ++part) {
      if (part->count == 0) continue;
      for (int number : numbers) more.push_back(number + part->number);
    }
    numbers = std::move(more);
  }
  std::sort(numbers.begin(), numbers.end());
  for (int number : numbers) visit(number);
}

void TileIndex::Deal(std::vector<PartOfDim>& parts, const Placement& placement, int size) {
  std::vector<PartOfDim> dealt;
  for (const PartOfDim& part : parts) {
    for (int i = 0; i < size; ++i) {
      const Part some = placement.PartOf(part.count, size, i);
      dealt.push_back({part.begin + some.begin, some.count, part.number + i});
    }
  }
  parts = std::move(dealt);
}

}  // namespace lockstep::plan
