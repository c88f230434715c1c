#include "runtime/client/bulk_pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;

constexpr BulkPace::Clock::time_point kStart{1h};
constexpr size_t kKiB = 1024;

TEST(BulkPaceTest, AloneACopyTakesTheWire) {
  BulkPace pace;
  EXPECT_EQ(pace.At(kStart).request_bytes, 512 * kKiB);
  EXPECT_EQ(pace.At(kStart).under_way_bytes, 12 * kKiB * kKiB);
  pace.NoteAnswer(kStart, 200us, false);
  EXPECT_EQ(pace.At(kStart).request_bytes, 512 * kKiB);
}

TEST(BulkPaceTest, ItGivesWayToCommandsUntilNoneHasComeForAWhile) {
  BulkPace pace;
  pace.NoteAnswer(kStart, 200us, true);
  EXPECT_EQ(pace.At(kStart).request_bytes, 128 * kKiB);
  EXPECT_EQ(pace.At(kStart).under_way_bytes, 256 * kKiB);
  pace.NoteAnswer(kStart + 5ms, 200us, false);
  EXPECT_EQ(pace.At(kStart + 9ms).request_bytes, 128 * kKiB);
  EXPECT_EQ(pace.At(kStart + 10ms).request_bytes, 512 * kKiB);
  pace.NoteAnswer(kStart + 11ms, 200us, true);
  EXPECT_EQ(pace.At(kStart + 20ms).request_bytes, 128 * kKiB);
}

// Else two small requests at a time would be all that crosses it in its time.
TEST(BulkPaceTest, OnALongWireAsMuchIsUnderWayAsItHolds) {
  BulkPace pace;
  pace.NoteAnswer(kStart, 3ms, true);
  EXPECT_EQ(pace.At(kStart).under_way_bytes, 20 * 128 * kKiB);
  pace.NoteAnswer(kStart, 5s, true);  // what waited for something else says nothing of the wire
  EXPECT_EQ(pace.At(kStart).under_way_bytes, 20 * 128 * kKiB);
  BulkPace longer;
  longer.NoteAnswer(kStart, 1s, true);
  EXPECT_EQ(longer.At(kStart).under_way_bytes, 12 * kKiB * kKiB);
}

}  // namespace
}  // namespace lockstep::client
