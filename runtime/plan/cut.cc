#include "runtime/plan/cut.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace lockstep::plan {
namespace {

Part PartOfTile(const LayoutAlong& along, int index) {
  const Box tile = along.layout->TileAt(index);
  return {tile.begin[along.dim], tile.extents[along.dim]};
}

// Each member's tile has these parts of the dimension.
bool Deals(const LayoutAlong& along, const std::vector<Part>& parts) {
  for (int index = 0; index < along.layout->mesh().size(); ++index) {
    const Part part = PartOfTile(along, index);
    const Part& wanted = parts[static_cast<size_t>(index)];
    if (part.count != wanted.count || (part.count > 0 && part.begin != wanted.begin)) return false;
  }
  return true;
}

}  // namespace

Cut::Cut(int count, const std::vector<LayoutAlong>& layouts) : count_(count) {
  const int64_t whole = layouts.front().layout->shape()[layouts.front().dim];
  std::set<int64_t> ends = {whole};
  for (const LayoutAlong& along : layouts) {
    for (int index = 0; index < along.layout->mesh().size(); ++index) {
      const Part part = PartOfTile(along, index);
      for (const int64_t end : {part.begin, part.begin + part.count}) {
        if (part.count > 0 && end > 0) ends.insert(end);
      }
    }
  }
  ends_.assign(ends.begin(), ends.end());
  int64_t largest = 0;
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    largest = std::max(largest, end - begin);
    begin = end;
  }
  count_ = static_cast<int>(std::clamp<int64_t>(largest, 1, count));
}

std::vector<int64_t> Cut::BeforeCells(int number) const {
  std::vector<int64_t> before = {0};
  before.reserve(ends_.size() + 1);
  int64_t cell = 0;
  for (const int64_t end : ends_) {
    before.push_back(before.back() + EvenPart(end - cell, count_, number).count);
    cell = end;
  }
  return before;
}

bool Cut::IsEven() const {
  return std::all_of(ends_.begin(), ends_.end(), [&](int64_t end) { return end % count_ == 0; });
}

StatusOr<Layout> Cut::ChunkOf(const LayoutAlong& whole, int number) const {
  const Layout& layout = *whole.layout;
  const std::vector<int64_t> before_cells = BeforeCells(number);
  const auto before = [&](int64_t begin) {
    const auto cell = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
    return before_cells[static_cast<size_t>(cell)];
  };
  std::vector<Part> parts;
  for (int index = 0; index < layout.mesh().size(); ++index) {
    const Part tile = PartOfTile(whole, index);
    const int64_t begin = before(tile.begin);
    parts.push_back({begin, before(tile.begin + tile.count) - begin});
  }
  Shape shape = layout.shape();
  shape[whole.dim] = before_cells.back();
  std::vector<Placement> placements = layout.placements();
  std::optional<int> only;
  std::string sharding;
  for (int axis = 0; axis < layout.mesh().num_axes(); ++axis) {
    if (!layout.placement(axis).Shards(whole.dim)) continue;
    only = sharding.empty() ? std::optional<int>(axis) : std::nullopt;
    sharding +=
        (sharding.empty() ? "" : ", ") + layout.mesh().axes()[static_cast<size_t>(axis)].name;
    placements[static_cast<size_t>(axis)] = Placement::Shard(whole.dim);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Layout even,
                            Layout::Make(shape, layout.dtype(), layout.mesh(), placements));
  if (Deals({&even, whole.dim}, parts)) return even;
  if (!only.has_value()) {
    return InvalidArgument("the axes ", sharding, " shard dimension ", whole.dim, " of ", layout,
                           " together, and what a rank has of it cannot be dealt into ", count_,
                           " equal chunks; take a number of chunks that divides it");
  }
  const int axis = *only;
  std::vector<int64_t> extents(static_cast<size_t>(layout.mesh().AxisSize(axis)));
  for (int index = 0; index < layout.mesh().size(); ++index) {
    extents[static_cast<size_t>(layout.mesh().Coordinate(index, axis))] =
        parts[static_cast<size_t>(index)].count;
  }
  placements[static_cast<size_t>(axis)] = Placement::Shard(whole.dim, std::move(extents));
  return Layout::Make(shape, layout.dtype(), layout.mesh(), std::move(placements));
}

std::vector<Cut::Runs> Cut::RunsOf(const Part& tile, int number) const {
  std::vector<Runs> all;
  int64_t in_chunk = 0;
  // A cell begins where the one before it ends.
  const auto first = std::upper_bound(ends_.begin(), ends_.end(), tile.begin);
  int64_t cell = first == ends_.begin() ? 0 : *std::prev(first);
  for (auto it = first; it != ends_.end() && *it <= tile.begin + tile.count; ++it) {
    const int64_t end = *it;
    const int64_t begin = std::exchange(cell, end);
    if (begin < tile.begin) continue;
    const Part part = EvenPart(end - begin, count_, number);
    if (part.count == 0) continue;
    const int64_t in_tile = begin - tile.begin + part.begin;
    Runs* const last = all.empty() ? nullptr : &all.back();
    const int64_t pitch =
        last == nullptr ? 0 : in_tile - last->in_tile - (last->times - 1) * last->pitch;
    if (last != nullptr && last->extent == part.count &&
        (last->times == 1 || pitch == last->pitch)) {
      last->pitch = pitch;
      ++last->times;
    } else {
      all.push_back({in_tile, in_chunk, part.count, 1, 0});
    }
    in_chunk += part.count;
  }
  return all;
}

}  // namespace lockstep::plan
