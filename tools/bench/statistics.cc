#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lockstep::bench {

double Percentile(std::vector<double> values, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  const size_t index = std::clamp<size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

}  // namespace lockstep::bench
