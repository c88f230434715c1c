// Which sample belongs to which mini-batch.
#pragma once

#include <cstdint>

namespace lockstep::examples::digits {

// Shuffles all `total` samples of the training set and cuts the shuffled list into batches of
// `batch_size` (the last may be smaller). Writes the number of the batch of sample ids[i] to
// batch_of_row[i], for the `count` samples that lie here.
//
// The shuffle depends on `seed` and `epoch` alone: every worker knows the same batches, and a batch
// consists of the same samples however many workers share them. A worker may hold none of a batch.
// Every id is in [0, total).
void DealBatches(const int32_t* ids, int64_t count, int64_t total, int64_t batch_size,
                 uint64_t seed, uint64_t epoch, int32_t* batch_of_row);

// Batches in an epoch.
inline int64_t BatchesPerEpoch(int64_t total, int64_t batch_size) {
  return (total + batch_size - 1) / batch_size;
}

}  // namespace lockstep::examples::digits
