// Who works on what of a large operation: every rank on one slice.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::collective {

struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// The slice of `count` elements that rank `rank` of `size` works on. Slices begin at multiples of
// 256 bytes, so that no two ranks write to one line, nor to the pair of lines that are fetched
// together, and vector loops have no rest.
inline Slice SliceOf(size_t count, size_t element_bytes, int rank, int size) {
  const size_t granule = 256 / element_bytes;
  const size_t granules = (count + granule - 1) / granule;
  const auto boundary = [&](int r) {
    const auto i = static_cast<size_t>(r);
    const auto n = static_cast<size_t>(size);
    // granules * i / n without overflow, spread evenly.
    return std::min(count, (granules / n * i + granules % n * i / n) * granule);
  };
  return {boundary(rank), boundary(rank + 1) - boundary(rank)};
}

}  // namespace lockstep::collective
