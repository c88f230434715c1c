#include "services/controller/reports/skew.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "schemas/control.capnp.h"

namespace lockstep::controller {
namespace {

using testing::HasSubstr;
using testing::Not;

class SkewTest : public testing::Test {
 protected:
  struct Time {
    uint64_t command = 1;
    uint64_t micros = 0;
    uint16_t ranks = 3;
    Rank first = 0;
    wire::CollectiveKind kind = wire::CollectiveKind::ALL_REDUCE;
  };
  void Hear(Rank rank, const Time& time) {
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<wire::Heartbeat>().initCollectives(1);
    list[0].setSession(1);
    list[0].setCommand(time.command);
    list[0].setFirst(time.first);
    list[0].setRanks(time.ranks);
    list[0].setKind(static_cast<uint16_t>(time.kind));
    list[0].setNanos(time.micros * 1000);
    skew_.Take(rank, list.asReader());
  }
  std::string Text() const {
    metrics::Families families;
    skew_.Tell(families);
    return families.Text();
  }
  static std::string Last(const std::string& operation, Rank rank, int times) {
    return "lockstep_collective_last_total{operation=\"" + operation + "\",rank=\"" +
           std::to_string(rank) + "\"} " + std::to_string(times) + "\n";
  }

  Skew skew_{3};
};

TEST_F(SkewTest, TellsHowOftenAndHowLateEachRankCameLast) {
  for (const uint64_t command : {1u, 2u}) {
    Hear(0, {.command = command, .micros = 1500});
    Hear(1, {.command = command, .micros = 900});
    EXPECT_EQ(skew_.Compared().compared, command - 1) << "rank 2 has yet to tell";
    Hear(2, {.command = command, .micros = 100});
  }
  const Skew::Lateness lateness = skew_.Compared();
  EXPECT_EQ(lateness.compared, 2u);
  ASSERT_EQ(lateness.ranks.size(), 3u);
  EXPECT_EQ(lateness.ranks[2].times, 2u);
  EXPECT_EQ(lateness.ranks[2].by, std::chrono::microseconds(2800));
  EXPECT_EQ(lateness.ranks[0].times, 0u);
}

TEST_F(SkewTest, WhoWasInItForTheShortestTimeCameLast) {
  Hear(1, {.micros = 900});
  Hear(0, {.micros = 1500});
  EXPECT_EQ(Text(), "") << "rank 2 has yet to tell";
  Hear(2, {.micros = 100});
  EXPECT_THAT(Text(), HasSubstr("lockstep_collective_skew_seconds_sum{operation=\"allreduce\"} "
                                "0.0014\n"));
  EXPECT_THAT(Text(), HasSubstr(Last("allreduce", 2, 1)));
  EXPECT_THAT(Text(), HasSubstr(Last("allreduce", 0, 0)));
}

TEST_F(SkewTest, GroupsAndCollectivesAreToldApart) {
  const auto kBarrier = wire::CollectiveKind::BARRIER;
  Hear(0, {.command = 1, .micros = 5, .ranks = 2, .kind = kBarrier});
  Hear(2, {.command = 1, .micros = 1, .ranks = 2, .first = 1, .kind = kBarrier});
  Hear(1, {.command = 2, .micros = 1, .ranks = 2, .first = 1, .kind = kBarrier});
  EXPECT_EQ(Text(), "");
  Hear(1, {.command = 1, .micros = 7, .ranks = 2, .first = 1, .kind = kBarrier});
  EXPECT_THAT(Text(), HasSubstr("skew_seconds_count{operation=\"barrier\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr(Last("barrier", 2, 1)));
}

TEST_F(SkewTest, WhatMakesNoSenseCountsForNothing) {
  Hear(0, {.micros = 1, .ranks = 1});
  Hear(0, {.micros = 1, .ranks = 40});
  Hear(0, {.command = 2, .ranks = 2, .kind = wire::CollectiveKind::BROADCAST});
  Hear(1, {.command = 2, .ranks = 2, .kind = wire::CollectiveKind::BROADCAST});
  EXPECT_EQ(Text(), "");
}

TEST_F(SkewTest, OneThatNobodyCompletesIsGivenUp) {
  Hear(0, {.command = 1, .micros = 1, .ranks = 2});
  for (uint64_t command = 2; command < Skew::kMostPending + 2; ++command) {
    Hear(0, {.command = command, .micros = 1, .ranks = 2});
  }
  Hear(1, {.command = 1, .micros = 1, .ranks = 2});
  EXPECT_THAT(Text(), Not(HasSubstr("skew")));
  Hear(1, {.command = Skew::kMostPending + 1, .micros = 1, .ranks = 2});
  EXPECT_THAT(Text(), HasSubstr("skew_seconds_count{operation=\"allreduce\"} 1\n"));
}

}  // namespace
}  // namespace lockstep::controller
