// Cut: how a dimension is dealt into chunks, so that what ranks exchange of each is balanced.
//
// The dimension is made of cells, within each of which every layout that matters has the same
// ranks. Chunk j is the j-th part of every cell: of every rank's tile, it is about as much.
//
//     rows of 2 ranks      0 1 2 3 | 4 5 6 7        cells {4, 4}
//     chunk 0 of 2         0 1       4 5
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/plan/layout.h"

namespace lockstep::plan {

// A layout, and the dimension of it that is cut.
struct LayoutAlong {
  const Layout* layout;  // borrowed
  int dim;
};

// Immutable. Threads: any.
class Cut {
 public:
  // By what the layouts deal out, of as long a dimension: `count` chunks, or as many as the largest
  // cell has elements. There is one layout, and one chunk, at least.
  Cut(int count, const std::vector<LayoutAlong>& layouts);

  int count() const { return count_; }
  // All chunks are of one extent, and dealt out alike.
  bool IsEven() const;

  // The chunk of a tensor of that layout, which was among those that the cut was made of: each
  // rank's tile of it is the chunk of its tile. kInvalidArgument: no placements deal it out so.
  StatusOr<Layout> ChunkOf(const LayoutAlong& whole, int number) const;

  // What of a tile, whose part of the dimension is [begin, begin + extent), belongs to the chunk:
  // `times` runs of `extent` elements along it, which begin a pitch apart.
  struct Runs {
    int64_t in_tile = 0;   // the first run's place along the dimension, in the tile
    int64_t in_chunk = 0;  // and in the chunk's tile
    int64_t extent = 0;
    int64_t times = 0;
    int64_t pitch = 0;  // in the tile; in the chunk's tile they follow each other
  };
  // Ascending; the tile begins and ends where cells do.
  std::vector<Runs> RunsOf(const Part& tile, int number) const;

  size_t HeldBytes() const { return sizeof *this + ends_.size() * sizeof(int64_t); }
  bool operator==(const Cut&) const = default;

 private:
  // What of the cells before each one belongs to the chunk, and, last, of all of them.
  std::vector<int64_t> BeforeCells(int number) const;

  int count_;
  std::vector<int64_t> ends_;  // of the cells, ascending
};

}  // namespace lockstep::plan
