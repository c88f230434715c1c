// The tiles of a layout: who holds each, and which of them a box has something in common with.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/base/ids.h"
#include "runtime/plan/box.h"
#include "runtime/plan/layout.h"

namespace lockstep::plan {

// A tile, and the ranks that hold it, which ascend.
struct HeldTile {
  Box box;
  int layer = 0;   // Layout::LayerAt()
  int number = 0;  // Layout::TileNumberAt()
  std::vector<Rank> ranks;
};

// Those that are not empty, by layer and number.
std::vector<HeldTile> TilesOf(const Layout& layout);

// Finds tiles without looking at all.
//
// Along a dimension, a tile is one of the parts into which the axes that shard it deal it out: they
// ascend, without gaps.
//
// Immutable. Threads: any.
class TileIndex {
 public:
  explicit TileIndex(const Layout& layout);

  // Calls visit(Layout::TileNumberAt()) for each, ascending, but for tiles of no elements.
  void ForEachOverlapping(const Box& box, absl::FunctionRef<void(int)> visit) const;

 private:
  struct PartOfDim {
    int64_t begin = 0;
    int64_t count = 0;
    int number = 0;  // what it adds to a tile's number
  };
  static void Deal(std::vector<PartOfDim>& parts, const Placement& placement, int size);

  std::vector<std::vector<PartOfDim>> dims_;
};

}  // namespace lockstep::plan
