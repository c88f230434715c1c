#include "examples/digits/batches.h"

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "examples/digits/random.h"

namespace lockstep::examples::digits {

void DealBatches(const int32_t* ids, int64_t count, int64_t total, int64_t batch_size,
                 uint64_t seed, uint64_t epoch, int32_t* batch_of_row) {
  // place[id] becomes the sample's place in the shuffled list (Fisher and Yates).
  std::vector<int64_t> place(static_cast<size_t>(total));
  std::iota(place.begin(), place.end(), 0);
  Random random(Random(seed).Next() + epoch);
  for (size_t i = place.size(); i > 1; --i) std::swap(place[i - 1], place[random.Below(i)]);

  for (int64_t i = 0; i < count; ++i) {
    batch_of_row[i] = static_cast<int32_t>(place[static_cast<size_t>(ids[i])] / batch_size);
  }
}

}  // namespace lockstep::examples::digits
