#include "services/controller/sessions/restored_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsNull;
using testing::NotNull;
using testing::Pair;

control::SessionRecord Session(uint32_t id, uint64_t next_command, uint32_t generation = 0) {
  control::SessionRecord record;
  record.id = SessionId(id);
  record.token = "token " + std::to_string(id);
  record.next_command = next_command;
  record.generation = Generation(generation);
  return record;
}

Inventory Of(std::vector<control::SessionRecord> sessions, uint64_t controller = 7,
             int world_size = 3) {
  const Epoch epoch(controller + 1);
  return {Epoch(controller), epoch, epoch, world_size, std::move(sessions)};
}

TEST(RestoredSessionsTest, NothingComesOfNothing) {
  EXPECT_THAT(RestoreSessions({nullptr, nullptr, nullptr}), IsEmpty());
  EXPECT_THAT(RestoreSessions({}), IsEmpty());
}

TEST(RestoredSessionsTest, SessionsThatAllHaveInTheSameStateHaveLostNothing) {
  const Inventory all = Of({Session(3, 41, 2), Session(9, 5)});
  const auto restored = RestoreSessions({&all, &all, &all});
  ASSERT_EQ(restored.size(), 2u);
  EXPECT_EQ(restored[0].record.id, SessionId(3));
  EXPECT_EQ(restored[0].record.token, "token 3");
  EXPECT_EQ(restored[0].record.next_command, 41u);
  EXPECT_EQ(restored[0].record.generation, Generation(2));
  EXPECT_EQ(restored[0].record.failure.code, StatusCode::kUnavailable);
  EXPECT_THAT(restored[0].replaced, IsEmpty());
  EXPECT_EQ(restored[1].record.id, SessionId(9));
}

TEST(RestoredSessionsTest, RanksThatAreNotEquallyFarAreNamed) {
  const Inventory ahead = Of({Session(3, 50)});
  const Inventory behind = Of({Session(3, 42)});
  const Inventory far_behind = Of({Session(3, 40)});
  const auto restored = RestoreSessions({&behind, &ahead, &far_behind});
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0].record.next_command, 50u) << "no worker has seen it";
  EXPECT_EQ(restored[0].record.failure.code, StatusCode::kDataLoss);
  EXPECT_THAT(
      restored[0].record.failure.message,
      AllOf(HasSubstr("commands 40 to 49 have reached rank 1, but not"), HasSubstr("ranks 0, 2")));
}

TEST(RestoredSessionsTest, TheLatestGenerationCounts) {
  const Inventory before = Of({Session(3, 50, 4)});
  const Inventory after = Of({Session(3, 50, 5)});
  EXPECT_EQ(RestoreSessions({&before, &after, &before})[0].record.generation, Generation(5));
}

TEST(RestoredSessionsTest, RanksWithoutTheSessionAreReplaced) {
  const Inventory has = Of({Session(3, 50)});
  const Inventory has_not = Of({});
  const auto restored = RestoreSessions({&has, nullptr, &has_not});
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_THAT(restored[0].replaced, ElementsAre(Pair(1, 50u), Pair(2, 50u)));
  EXPECT_EQ(restored[0].record.failure.code, StatusCode::kUnavailable);
}

// It may hold the same sessions, as they were long ago.
TEST(RestoredSessionsTest, OnlyTheLatestControllerAndAWorldOfThisSizeCount) {
  const Inventory latest = Of({Session(3, 50)}, 9);
  const Inventory earlier = Of({Session(3, 50)}, 8);
  const Inventory larger_world = Of({Session(3, 50)}, 10, 4);
  EXPECT_THAT(CountingInventories({&earlier, &latest, &larger_world}),
              ElementsAre(IsNull(), NotNull(), IsNull()));
  EXPECT_THAT(CountingInventories({nullptr, nullptr}), ElementsAre(IsNull(), IsNull()));
}

TEST(RestoredSessionsTest, WhoeverWasReplacedBeforeTheOthersWorkedOnDoesNotCount) {
  Inventory worked = Of({Session(3, 50)});
  worked.epoch = worked.worked_epoch = Epoch(20);
  Inventory entered = Of({Session(3, 40)});  // and has not been sent anything there yet
  entered.epoch = Epoch(20);
  const Inventory lost_before = Of({Session(3, 50)});
  EXPECT_THAT(CountingInventories({&worked, &entered, &lost_before}),
              ElementsAre(NotNull(), NotNull(), IsNull()));
}

TEST(RestoredSessionsTest, AWorldThatNobodyHasWorkedInMakesNothingOutOfDate) {
  Inventory entered = Of({Session(3, 50)});
  entered.controller = Epoch(30);
  entered.epoch = Epoch(31);
  const Inventory not_yet = Of({Session(3, 50)});
  EXPECT_THAT(CountingInventories({&entered, &not_yet, &not_yet}),
              ElementsAre(NotNull(), NotNull(), NotNull()));
}

TEST(RestoredSessionsTest, ReplacedWorkersStayReplaced) {
  const Inventory all = Of({Session(3, 50)});
  Inventory newcomer = Of({Session(3, 50)});
  newcomer.sessions[0].first_command = 30;
  EXPECT_THAT(RestoreSessions({&all, &newcomer, &all})[0].replaced, ElementsAre(Pair(1, 30u)));
}

TEST(RestoredSessionsTest, TheLastClientHasTheSession) {
  const Inventory before = Of({Session(3, 50)});
  Inventory after = Of({Session(3, 50)});
  after.sessions[0].client_number = 2;
  after.sessions[0].name = "second";
  after.sessions[0].pid = 22;
  after.sessions[0].bulk_key = "its own";
  const auto restored = RestoreSessions({&before, &after, &before});
  EXPECT_EQ(restored[0].record.client_number, 2u);
  EXPECT_EQ(restored[0].record.name, "second");
  EXPECT_EQ(restored[0].record.pid, 22);
  EXPECT_EQ(restored[0].record.bulk_key, "its own") << "the one before may not copy any more";
}

// Workers divide by the number of groups.
TEST(RestoredSessionsTest, SessionsWhoseGroupsDoNotDivideTheWorldAreNoneOfOurs) {
  control::SessionRecord without_groups = Session(3, 41);
  without_groups.num_groups = 0;
  control::SessionRecord of_two_groups = Session(4, 41);
  of_two_groups.num_groups = 2;
  const Inventory inventory = Of({without_groups, of_two_groups, Session(5, 41)});
  const auto restored = RestoreSessions({&inventory, nullptr, nullptr});
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0].record.id, SessionId(5));
}

}  // namespace
}  // namespace lockstep::controller
