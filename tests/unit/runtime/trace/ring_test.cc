#include "runtime/trace/ring.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace lockstep::trace {
namespace {

Event Numbered(uint64_t number) {
  Event event;
  event.command = number;
  event.bytes = ~number;
  return event;
}

TEST(RingTest, KeepsNothingUntilItIsStarted) {
  Ring ring;
  EXPECT_FALSE(ring.is_on());
  ring.Add(Numbered(1));
  EXPECT_EQ(ring.size(), 0u);
}

TEST(RingTest, KeepsTheLastEventsAndCountsThoseThatMadeRoom) {
  Ring ring;
  ring.Start(3);
  EXPECT_TRUE(ring.is_on());
  for (uint64_t i = 1; i <= 5; ++i) ring.Add(Numbered(i));
  ring.Stop();
  EXPECT_EQ(ring.lost(), 2u);
  ASSERT_EQ(ring.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ring.at(i).command, 3 + i);
}

TEST(RingTest, WhatComesAfterTheEndIsNotKeptAndAnotherStartForgets) {
  Ring ring;
  ring.Start(3);
  ring.Add(Numbered(1));
  ring.Stop();
  ring.Add(Numbered(2));
  EXPECT_EQ(ring.size(), 1u);
  ring.Start(3);
  ring.Stop();
  EXPECT_EQ(ring.size(), 0u);
  EXPECT_EQ(ring.lost(), 0u);
}

TEST(RingTest, IsStartedAndStoppedWhileSomebodyRecords) {
  Ring ring;
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !over; ++i) ring.Add(Numbered(i));
  });
  for (int round = 0; round < 200; ++round) {
    ring.Start(7);
    std::this_thread::yield();
    ring.Stop();
    for (size_t i = 0; i < ring.size(); ++i) {
      // Whole, and none is missing between two.
      EXPECT_EQ(ring.at(i).bytes, ~ring.at(i).command);
      EXPECT_EQ(ring.at(i).command, ring.at(0).command + i);
    }
    if (round % 3 == 0) ring.Clear();
  }
  over = true;
  writer.join();
}

TEST(RingTest, LongNamesAreCut) {
  Event event;
  event.SetName(std::string(100, 'n'));
  EXPECT_EQ(std::string(event.name), std::string(Event::kMaxNameBytes, 'n'));
  EXPECT_EQ(sizeof(event.name), Event::kMaxNameBytes + 1) << "else the end lies in what follows";
  event.SetBackend("shm+gloo");
  EXPECT_STREQ(event.backend, "shm+gloo");
  event.SetBackend(std::string(100, 'b'));
  EXPECT_EQ(std::string(event.backend), std::string(Event::kMaxBackendBytes, 'b'));
  EXPECT_EQ(std::string(event.name), std::string(Event::kMaxNameBytes, 'n')) << "beside it";
}

}  // namespace
}  // namespace lockstep::trace
