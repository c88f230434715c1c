// A box of a tensor's elements: what a rank holds of it, what two ranks have in common.
#pragma once

#include <cstdint>

#include "runtime/base/shape.h"

namespace lockstep::plan {

// The elements whose index lies in [begin, begin + extent) along every dimension. A tensor without
// dimensions has one box, of its one element.
struct Box {
  Shape begin;
  Shape extents;

  int ndim() const { return extents.ndim(); }
  int64_t NumElements() const { return extents.NumElements(); }
  bool IsEmpty() const { return NumElements() == 0; }
  bool operator==(const Box&) const = default;
};

// All of a tensor of this shape.
Box WholeBox(const Shape& shape);

// What both have; empty, with extents that are not negative, if that is nothing. Both have as many
// dimensions.
Box Intersection(const Box& a, const Box& b);

// `inner` lies in `outer`, or is empty.
bool Contains(const Box& outer, const Box& inner);

// Where the elements of a box lie in a buffer: the first at `offset`, and its neighbour along
// dimension d `strides[d]` further. In elements.
struct Window {
  int64_t offset = 0;
  Shape strides;
  bool operator==(const Window&) const = default;
};

// The strides of a dense, row-major tensor.
Shape RowMajorStrides(const Shape& extents);

// The window of `box` in a buffer that holds `tile`, which contains it, densely and row-major, and
// begins at `offset`.
Window WindowOf(const Box& box, const Box& tile, int64_t offset = 0);

// The window of a dense, row-major box at `offset`.
Window DenseWindow(const Shape& extents, int64_t offset);

// Whether the elements of a box of these extents lie in a row, in row-major order.
bool IsDense(const Window& window, const Shape& extents);

}  // namespace lockstep::plan
