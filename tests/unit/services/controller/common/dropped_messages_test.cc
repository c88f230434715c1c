#include "services/controller/common/dropped_messages.h"

#include <gtest/gtest.h>

#include "tests/unit/services/controller/fakes.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

TEST(DroppedMessagesTest, EachPlaceIsToldOfOnceAMinute) {
  FakeClock clock;
  DroppedMessages dropped(clock);
  EXPECT_EQ(dropped.Note("garbage", "10.0.0.7"), "garbage; it came from 10.0.0.7");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(dropped.Note("garbage", "10.0.0.7"), "");
  EXPECT_EQ(dropped.Note("garbage", "10.0.0.8"), "garbage; it came from 10.0.0.8");
  EXPECT_EQ(dropped.Note("garbage", ""),
            "garbage; it came from a connection of which no address is known");
  clock.now += 59s;
  EXPECT_EQ(dropped.Note("garbage", "10.0.0.7"), "");
  clock.now += 1s;
  EXPECT_EQ(dropped.Note("garbage", "10.0.0.7"),
            "garbage; it came from 10.0.0.7, as did 1001 more since the last line about it");
  EXPECT_EQ(dropped.Note("garbage", "10.0.0.8"), "garbage; it came from 10.0.0.8");
}

TEST(DroppedMessagesTest, PlacesWithoutEndAreToldOfAsOne) {
  FakeClock clock;
  DroppedMessages dropped(clock);
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!dropped.Note("garbage", std::to_string(i)).empty()) ++lines;
  }
  EXPECT_EQ(lines, static_cast<int>(DroppedMessages::kMostPlaces) + 1);
  clock.now += 2min;
  EXPECT_EQ(dropped.Note("garbage", "another"), "garbage; it came from another")
      << "those that are silent again make room";
}

}  // namespace
}  // namespace lockstep::controller
