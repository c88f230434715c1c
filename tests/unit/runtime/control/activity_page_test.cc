#include "runtime/control/activity_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"

namespace lockstep::control {
namespace {

using Kind = ActivityPage::Kind;

TEST(ActivityPageTest, NothingIsExecutedAtFirst) {
  const WorkerActivity now = ActivityPage().Now();
  EXPECT_EQ(now.kind, Kind::kNone);
  EXPECT_EQ(now.received + now.launched + now.completed, 0u);
  EXPECT_EQ(now.Describe(), "nothing");
}

TEST(ActivityPageTest, CommandsAreNamedWhileTheyLast) {
  ActivityPage activity;
  activity.Receive(5);
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

TEST(ActivityPageTest, CollectivesAddUp) {
  ActivityPage activity;
  activity.AddCollective(100, std::chrono::microseconds(3));
  activity.AddCollective(50, std::chrono::microseconds(4));
  const WorkerActivity now = activity.Now();
  EXPECT_EQ(now.collectives, 2u);
  EXPECT_EQ(now.bus_bytes, 150u);
  EXPECT_EQ(now.in_collectives, std::chrono::microseconds(7));
}

TEST(ActivityPageTest, TimeRunsFromTheLaunch) {
  ActivityPage activity;
  activity.Launch(SessionId(1), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  activity.Name("sleep", Kind::kCommand);
  EXPECT_GE(activity.Now().since, std::chrono::milliseconds(40)) << "the clock is coarse";
}

// What a worker did when it was killed.
TEST(ActivityPageTest, PageIsReadWhereItIsMapped) {
  const std::string name = std::string("lockstep-page-test-") + RandomHex(8);
  EXPECT_EQ(ActivityPage::Open(name).status().code(), StatusCode::kNotFound);
  auto page = ActivityPage::Create(name);
  ASSERT_TRUE(page.ok()) << page.status();
  const auto mapped = ActivityPage::Open(name);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  (*page)->Receive(12);
  (*page)->Launch(SessionId(3), 17);
  (*page)->Name("allreduce", Kind::kCollective);
  (*page)->Among(2, 5);
  page->reset();
  EXPECT_EQ(ActivityPage::Open(name).status().code(), StatusCode::kNotFound);
  const WorkerActivity last = (*mapped)->Now();
  EXPECT_EQ(last.received, 12u);
  EXPECT_EQ(last.command, 17u);
  EXPECT_EQ(last.what, "allreduce");
  EXPECT_EQ(last.first_rank, 2);
  EXPECT_EQ(last.last_rank, 5);
}

TEST(ActivityPageTest, OtherSegmentsAreNoPages) {
  const std::string name = std::string("lockstep-page-test-") + RandomHex(8);
  const auto segment = SharedSegment::Create(name, 4096);
  ASSERT_TRUE(segment.ok()) << segment.status();
  ASSERT_TRUE((*segment)->Reserve(4096).ok());
  EXPECT_EQ(ActivityPage::Open(name).status().code(), StatusCode::kFailedPrecondition);
}

TEST(ActivityPageTest, NamesOfAllLengthsComeThrough) {
  ActivityPage activity;
  activity.Launch(SessionId(1), 1);
  std::string name;
  for (char letter = '!'; name.size() <= ActivityPage::kNameBytes; name += letter++) {
    // As a part of something longer: what follows is not the name's.
    const std::string longer = name + "and more";
    activity.Name(std::string_view(longer).substr(0, name.size()), Kind::kCommand);
    EXPECT_EQ(activity.Now().what, name);
  }
}

TEST(ActivityPageTest, AStepOfAPlanHasAPlaceUntilTheNextCommand) {
  ActivityPage activity;
  activity.Launch(SessionId(1), 1);
  activity.Name("allreduce", Kind::kCollective);
  EXPECT_EQ(activity.Now().WhatAndPlace(), "allreduce");
  activity.At("gradients.yaml:20");
  EXPECT_EQ(activity.Now().WhatAndPlace(), "allreduce at gradients.yaml:20");
  activity.At(std::string(1000, '/') + "file.yaml:7");
  EXPECT_EQ(activity.Now().place.size(), ActivityPage::kPlaceBytes);
  EXPECT_TRUE(activity.Now().place.ends_with("/file.yaml:7")) << "the end tells most";
  activity.Show(SessionId(1), 1, "call", "a.yaml:3", Kind::kCommand, 0, 1,
                std::chrono::steady_clock::now());
  EXPECT_EQ(activity.Now().Describe().substr(0, 44),
            "command 1 (call at a.yaml:3) of session 1 fo");
  activity.Launch(SessionId(1), 2);
  EXPECT_EQ(activity.Now().place, "");
}

TEST(ActivityPageTest, LongNamesAreCut) {
  ActivityPage activity;
  activity.Launch(SessionId(1), 1);
  activity.Name(std::string(1000, 'x'), Kind::kCommand);
  EXPECT_EQ(activity.Now().what, std::string(ActivityPage::kNameBytes, 'x'));
}

// Commands of one name and kind each, by number: what is read belongs together.
TEST(ActivityPageTest, ReadersNeverSeeHalfOfACommand) {
  ActivityPage activity;
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
}  // namespace lockstep::control
