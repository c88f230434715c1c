#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/shape.h"
#include "tests/unit/examples/digits/on_host.h"

namespace lockstep::examples::digits {
namespace {

constexpr int64_t kTotal = 1437;
constexpr int64_t kBatch = 64;

// Batches of the samples `begin` to `begin + count`.
std::vector<int32_t> Deal(int64_t begin, int64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(begin));
  return DealBatchesOf(ids, kTotal, kBatch, seed, epoch);
}

TEST(BatchesTest, EveryBatchIsFullButTheLast) {
  std::map<int32_t, int64_t> sizes;
  for (const int32_t batch : Deal(0, kTotal, 1, 0)) ++sizes[batch];
  const int64_t batches = BatchesPerEpoch(kTotal, kBatch);
  ASSERT_EQ(static_cast<int64_t>(sizes.size()), batches);
  for (int32_t b = 0; b < batches - 1; ++b) EXPECT_EQ(sizes[b], kBatch);
  EXPECT_EQ(sizes[static_cast<int32_t>(batches - 1)], kTotal - (batches - 1) * kBatch);
}

TEST(BatchesTest, WorkersWithShardsAgreeWithOneThatHasAll) {
  const std::vector<int32_t> all = Deal(0, kTotal, 1, 3);
  for (const int workers : {2, 3, 4, 7}) {
    std::vector<int32_t> joined;
    for (int rank = 0; rank < workers; ++rank) {
      const Part part = EvenPart(kTotal, workers, rank);
      const std::vector<int32_t> mine = Deal(part.begin, part.count, 1, 3);
      joined.insert(joined.end(), mine.begin(), mine.end());
    }
    EXPECT_EQ(joined, all) << workers << " workers";
  }
}

TEST(BatchesTest, EpochsAndSeedsShuffleAnew) {
  EXPECT_EQ(Deal(0, kTotal, 1, 0), Deal(0, kTotal, 1, 0));
  EXPECT_NE(Deal(0, kTotal, 1, 0), Deal(0, kTotal, 1, 1));
  EXPECT_NE(Deal(0, kTotal, 1, 0), Deal(0, kTotal, 2, 0));
  // A later epoch of one seed is no earlier epoch of another.
  EXPECT_NE(Deal(0, kTotal, 1, 1), Deal(0, kTotal, 2, 0));
}

TEST(BatchesTest, AnUnknownSampleIsInNoBatch) {
  EXPECT_EQ(DealBatchesOf({-1, 3, 0}, 3, 3, 1, 0), (std::vector<int32_t>{-1, -1, 0}));
}

TEST(BatchesTest, BatchesPerEpochRoundsUp) {
  EXPECT_EQ(BatchesPerEpoch(64, 64), 1);
  EXPECT_EQ(BatchesPerEpoch(65, 64), 2);
  EXPECT_EQ(BatchesPerEpoch(1, 64), 1);
}

}  // namespace
}  // namespace lockstep::examples::digits
