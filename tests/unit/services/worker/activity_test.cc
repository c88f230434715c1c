#include "services/worker/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace lockstep::worker {
namespace {

using Kind = Activity::Kind;

TEST(ActivityTest, NothingIsExecutedAtFirst) {
  const WorkerActivity now = Activity().Now();
  EXPECT_EQ(now.kind, Kind::kNone);
  EXPECT_EQ(now.received + now.launched + now.completed, 0u);
  EXPECT_EQ(now.Describe(), "nothing");
}

TEST(ActivityTest, CommandsAreNamedWhileTheyLast) {
  Activity activity;
  activity.Receive();
  activity.Launch(SessionId(3), 17);
  EXPECT_EQ(activity.Now().kind, Kind::kCommand);
  EXPECT_EQ(activity.Now().what, "") << "not yet";
  activity.Name("allreduce", Kind::kCollective);
  const WorkerActivity now = activity.Now();
  EXPECT_EQ(now.kind, Kind::kCollective);
  EXPECT_EQ(now.session, SessionId(3));
  EXPECT_EQ(now.command, 17u);
  EXPECT_EQ(now.what, "allreduce");
  EXPECT_EQ(now.launched, 1u);
  EXPECT_EQ(now.completed, 0u);
  activity.Complete();
  EXPECT_EQ(activity.Now().kind, Kind::kNone);
  EXPECT_EQ(activity.Now().completed, 1u);
  activity.Launch(SessionId(3), 18);
  EXPECT_EQ(activity.Now().what, "") << "the last one's name is not this one's";
}

TEST(ActivityTest, TimeRunsFromTheLaunch) {
  Activity activity;
  activity.Launch(SessionId(1), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  activity.Name("sleep", Kind::kCommand);
  EXPECT_GE(activity.Now().since, std::chrono::milliseconds(40)) << "the clock is coarse";
}

TEST(ActivityTest, LongNamesAreCut) {
  Activity activity;
  activity.Launch(SessionId(1), 1);
  activity.Name(std::string(1000, 'x'), Kind::kCommand);
  EXPECT_EQ(activity.Now().what, std::string(Activity::kNameBytes, 'x'));
}

// Commands of one name and kind each, by number: what is read belongs together.
TEST(ActivityTest, ReadersNeverSeeHalfOfACommand) {
  Activity activity;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t command = 1; !stop; ++command) {
      activity.Launch(SessionId(static_cast<uint32_t>(command % 7)), command);
      activity.Name(std::string(command % 7 * 9, static_cast<char>('a' + command % 7)),
                    command % 7 == 0 ? Kind::kCollective : Kind::kCommand);
      activity.Complete();
    }
  });
  int named = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (named < 1000 && std::chrono::steady_clock::now() < end) {
    const WorkerActivity now = activity.Now();
    if (now.kind == Kind::kNone || now.what.empty()) continue;
    ++named;
    ASSERT_EQ(now.session.value, now.command % 7);
    ASSERT_EQ(now.what, std::string(now.command % 7 * 9, static_cast<char>('a' + now.command % 7)));
    ASSERT_LE(now.completed, now.launched);
  }
  stop = true;
  writer.join();
  EXPECT_EQ(named, 1000);
}

}  // namespace
}  // namespace lockstep::worker
