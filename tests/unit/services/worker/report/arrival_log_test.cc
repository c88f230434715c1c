#include "services/worker/report/arrival_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>

namespace lockstep::worker {
namespace {

CollectiveTime Collective(uint64_t command) {
  CollectiveTime time;
  time.session = SessionId(3);
  time.command = command;
  time.spent = std::chrono::microseconds(command);
  return time;
}

std::set<uint64_t> CommandsOf(const std::vector<CollectiveTime>& times) {
  std::set<uint64_t> commands;
  for (const CollectiveTime& time : times) commands.insert(time.command);
  return commands;
}

TEST(ArrivalLogTest, KeepsAllThatHappensBetweenTwoHeartbeats) {
  ArrivalLog log;
  EXPECT_TRUE(log.Take().empty());
  for (uint64_t beat = 0; beat < 5; ++beat) {
    for (uint64_t i = 0; i < ArrivalLog::kCapacity; ++i) log.Note(Collective(beat * 1000 + i));
    const std::vector<CollectiveTime> times = log.Take();
    ASSERT_EQ(times.size(), ArrivalLog::kCapacity);
    EXPECT_EQ(times.front().command, beat * 1000);
    EXPECT_EQ(times.back().spent, std::chrono::microseconds(times.back().command));
  }
}

TEST(ArrivalLogTest, ABusyRankKeepsASampleThatFitsAndAQuietOneAllAgain) {
  ArrivalLog log;
  uint64_t command = 0;
  std::vector<CollectiveTime> times;
  const auto beat = [&](int collectives) {
    for (int i = 0; i < collectives; ++i) log.Note(Collective(++command));
    times = log.Take();
  };
  for (int i = 0; i < 12; ++i) beat(10'000);
  // The whole interval is told of, not its beginning alone.
  EXPECT_LE(times.size(), ArrivalLog::kCapacity);
  EXPECT_GE(times.size(), ArrivalLog::kCapacity / 8);
  EXPECT_GT(times.back().command - times.front().command, 5000u);
  for (int i = 0; i < 12; ++i) beat(20);
  EXPECT_EQ(times.size(), 20u);
}

// Ranks send heartbeats at times of their own.
TEST(ArrivalLogTest, RanksKeepTheSameCollectives) {
  ArrivalLog one;
  ArrivalLog other;
  std::set<uint64_t> of_one;
  std::set<uint64_t> of_other;
  for (uint64_t command = 0; command < 200'000; ++command) {
    one.Note(Collective(command));
    other.Note(Collective(command));
    if (command % 5000 == 0) of_one.merge(CommandsOf(one.Take()));
    if (command % 5000 == 2500) of_other.merge(CommandsOf(other.Take()));
  }
  std::set<uint64_t> both;
  std::set_intersection(of_one.begin(), of_one.end(), of_other.begin(), of_other.end(),
                        std::inserter(both, both.end()));
  EXPECT_GT(both.size(), std::min(of_one.size(), of_other.size()) / 2);
}

TEST(ArrivalLogTest, NothingIsTornWhileItIsRead) {
  ArrivalLog log;
  std::thread writer([&] {
    for (uint64_t command = 1; command < 50'000; ++command) log.Note(Collective(command));
    log.Note(Collective(0));
  });
  std::set<uint64_t> seen;
  for (int i = 0; i < 2000; ++i) {
    for (const CollectiveTime& time : log.Take()) {
      EXPECT_EQ(time.spent, std::chrono::microseconds(time.command));
      EXPECT_TRUE(seen.insert(time.command).second);
    }
  }
  writer.join();
}

}  // namespace
}  // namespace lockstep::worker
