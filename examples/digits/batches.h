// Which sample belongs to which mini-batch.
#pragma once

#include <cstdint>

#include "examples/digits/random.h"

namespace lockstep::examples::digits {

// Shuffles all `total` samples of the training set and cuts the shuffled list into batches of
// `batch_size` (the last may be smaller). Writes the number of the batch of sample ids[i] to
// batch_of_row[i], for the `count` samples that lie here; -1 for an id that is not in [0, total).
//
// The shuffle depends on `seed` and `epoch` alone: every worker knows the same batches, and a batch
// consists of the same samples however many workers share them. A worker may hold none of a batch.
//
// One piece (runtime/base/kernel.h): a shuffle has an order.
struct DealBatches {
  static constexpr char kName[] = "digits_deal_batches";
  const int32_t* ids;
  int64_t count;
  int64_t total;
  int64_t batch_size;
  uint64_t seed;
  uint64_t epoch;
  int64_t* place;  // scratch memory [total]
  int32_t* batch_of_row;

  int64_t pieces() const { return 1; }
  LOCKSTEP_HOST_DEVICE void Run(int64_t first, int64_t) const {
    if (first != 0) return;
    // place[id] becomes the sample's place in the shuffled list (Fisher and Yates).
    for (int64_t id = 0; id < total; ++id) place[id] = id;
    Random random(Random(seed).Next() + epoch);
    for (int64_t i = total; i > 1; --i) {
      const auto other = static_cast<int64_t>(random.Below(static_cast<uint64_t>(i)));
      const int64_t held = place[i - 1];
      place[i - 1] = place[other];
      place[other] = held;
    }
    for (int64_t row = 0; row < count; ++row) {
      const bool is_known = ids[row] >= 0 && ids[row] < total;
      batch_of_row[row] = is_known ? static_cast<int32_t>(place[ids[row]] / batch_size) : -1;
    }
  }
};

// Batches in an epoch.
inline int64_t BatchesPerEpoch(int64_t total, int64_t batch_size) {
  return (total + batch_size - 1) / batch_size;
}

}  // namespace lockstep::examples::digits
