#include "runtime/plan/box.h"

#include <algorithm>
#include <vector>

namespace lockstep::plan {

Box WholeBox(const Shape& shape) {
  const std::vector<int64_t> zeros(static_cast<size_t>(shape.ndim()), 0);
  return {Shape(absl::MakeConstSpan(zeros)), shape};
}

Box Intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.ndim(); ++d) {
    const int64_t begin = std::max(a.begin[d], b.begin[d]);
    const int64_t end = std::min(a.begin[d] + a.extents[d], b.begin[d] + b.extents[d]);
    both.begin[d] = begin;
    both.extents[d] = std::max<int64_t>(0, end - begin);
  }
  return both;
}

bool Contains(const Box& outer, const Box& inner) {
  return inner.IsEmpty() || Intersection(outer, inner) == inner;
}

Shape RowMajorStrides(const Shape& extents) {
  Shape strides = extents;
  int64_t stride = 1;
  for (int d = extents.ndim() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= extents[d];
  }
  return strides;
}

Window WindowOf(const Box& box, const Box& tile, int64_t offset) {
  Window window{offset, RowMajorStrides(tile.extents)};
  for (int d = 0; d < box.ndim(); ++d) {
    window.offset += (box.begin[d] - tile.begin[d]) * window.strides[d];
  }
  return window;
}

Window DenseWindow(const Shape& extents, int64_t offset) {
  return {offset, RowMajorStrides(extents)};
}

bool IsDense(const Window& window, const Shape& extents) {
  int64_t stride = 1;
  for (int d = extents.ndim() - 1; d >= 0; --d) {
    if (extents[d] != 1 && window.strides[d] != stride) return false;
    stride *= extents[d];
  }
  return true;
}

}  // namespace lockstep::plan
