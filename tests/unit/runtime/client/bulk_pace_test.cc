#include "runtime/client/bulk_pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;

constexpr size_t kKiB = 1024;

class BulkPaceTest : public testing::Test {
 protected:
  // So many requests are sent together, and answered one after the other at the wire's rate, the
  // first after `delay` and its own bytes.
  void Copy(int requests, size_t size_bytes, BulkPace::Clock::duration delay,
            double bytes_per_second, bool commands_come) {
    pace_.Begin();
    const auto sent = now_;
    now_ += delay;
    for (int i = 0; i < requests; ++i) {
      now_ += std::chrono::round<BulkPace::Clock::duration>(
          std::chrono::duration<double>(static_cast<double>(size_bytes) / bytes_per_second));
      pace_.NoteAnswer(sent, size_bytes, commands_come);
    }
  }

  BulkPace::Clock::time_point now_{1h};
  BulkPace pace_{[this] { return now_; }};
};

TEST_F(BulkPaceTest, AloneACopyTakesTheWire) {
  EXPECT_EQ(pace_.Current().request_bytes, 512 * kKiB);
  EXPECT_EQ(pace_.Current().under_way_bytes, 12 * kKiB * kKiB);
  Copy(24, 512 * kKiB, 200us, 2e9, false);
  EXPECT_EQ(pace_.Current().request_bytes, 512 * kKiB);
}

TEST_F(BulkPaceTest, ItGivesWayToCommandsUntilNoneHasComeForAWhile) {
  Copy(24, 512 * kKiB, 200us, 2e9, true);
  EXPECT_EQ(pace_.Current().request_bytes, 128 * kKiB);
  EXPECT_EQ(pace_.Current().under_way_bytes, 256 * kKiB);
  now_ += 9ms;
  EXPECT_EQ(pace_.Current().request_bytes, 128 * kKiB);
  now_ += 1ms;
  EXPECT_EQ(pace_.Current().request_bytes, 512 * kKiB);
  Copy(1, 512 * kKiB, 200us, 2e9, true);
  EXPECT_EQ(pace_.Current().request_bytes, 128 * kKiB);
}

// Else two small requests at a time would be all that crosses it in its time.
TEST_F(BulkPaceTest, OnALongWireAsMuchIsUnderWayAsItHolds) {
  Copy(24, 512 * kKiB, 10ms, 1.25e9, true);
  const size_t holds = 12'500'000;
  EXPECT_GT(pace_.Current().under_way_bytes, holds / 3);
  EXPECT_LE(pace_.Current().under_way_bytes, 12 * kKiB * kKiB);
  // What waited for something else says nothing of the wire.
  const size_t before = pace_.Current().under_way_bytes;
  Copy(1, 128 * kKiB, 5s, 1.25e9, true);
  EXPECT_EQ(pace_.Current().under_way_bytes, before);
}

// There two requests are much, and take long.
TEST_F(BulkPaceTest, ASlowWireIsNotTakenForALongOne) {
  for (const double bytes_per_second : {125e6, 12.5e6}) {
    pace_ = BulkPace([this] { return now_; });
    Copy(24, 512 * kKiB, 100us, bytes_per_second, true);
    EXPECT_EQ(pace_.Current().under_way_bytes, 256 * kKiB) << bytes_per_second;
  }
}

}  // namespace
}  // namespace lockstep::client
