#include "services/controller/sessions/session_failures.h"

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SessionFailuresTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c");
    ASSERT_EQ(Batch("c", id_, 1, 0, 4), OkStatus());
    Forget();
  }
  SessionId id_;
};

TEST_F(SessionFailuresTest, FirstCauseIsToldToWorkersClientAndRequests) {
  ASSERT_EQ(Batch("c", id_, 5, 9), OkStatus());
  Fail(1, id_, 3, "boom");
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 3: boom"));
  EXPECT_THAT(ToClient("c"), ElementsAre("failed 1.0 INTERNAL rank 1 command 3: boom",
                                         "answer 9 INTERNAL rank 1 command 3: boom"));
}

TEST_F(SessionFailuresTest, LaterCausesAreNotToldAndAbortNothing) {
  Fail(1, id_, 2, "boom");
  Forget();
  Fail(0, id_, 3, "a consequence");
  Fail(0, id_, 2, "a consequence");
  EXPECT_THAT(Aborts(), IsEmpty());
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_EQ(session(id_).failure.message, "boom");
}

// The client reads the first at once, before the others are known.
TEST_F(SessionFailuresTest, StatusTellsWhichRanksFailedAtTheSameCommandAlike) {
  options_.workers = 6;
  StartReady();
  id_ = Open("c");
  ASSERT_EQ(Batch("c", id_, 1, 0, 4), OkStatus());
  Forget();
  Fail(1, id_, 3, "no such function");
  EXPECT_EQ(session(id_).FailureOnAllRanks().message, "no such function");
  EXPECT_THAT(ToClient("c"), ElementsAre("failed 1.0 INTERNAL rank 1 command 3: no such function"));
  Forget();
  for (const Rank rank : {3, 2, 1, 3, 0}) Fail(rank, id_, 3, "no such function here");
  Fail(4, id_, 3, "another code", 0, StatusCode::kNotFound);
  Fail(5, id_, 4, "another command");
  EXPECT_EQ(session(id_).FailureOnAllRanks().message,
            "no such function; ranks 0, 2, 3 failed at this command as well");
  EXPECT_THAT(Journal(), IsEmpty());

  ASSERT_EQ(Reset("c", id_, 1, 10), OkStatus());
  Fail(2, id_, 5, "of the next generation", 1);
  EXPECT_EQ(session(id_).FailureOnAllRanks().message, "of the next generation");
}

TEST_F(SessionFailuresTest, EarlierFailureOfARankBehindAbortsFromThereWithTheFirstCause) {
  Fail(1, id_, 3, "boom");
  Forget();
  Fail(0, id_, 2, "of a rank behind");
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 2: boom"));
  EXPECT_THAT(ToClient("c"), IsEmpty()) << "the user reads the first cause";
  EXPECT_EQ(session(id_).failed_from, 2u);
}

TEST_F(SessionFailuresTest, FirstCauseIsWhatIsToldAlsoAfterAnEarlierFailure) {
  Fail(1, id_, 3, "boom");
  Fail(0, id_, 2, "of a rank behind");
  Forget();
  ASSERT_EQ(Batch("c", id_, 5, 9), OkStatus());
  ASSERT_EQ(FromClient("c",
                       [&](auto message) {
                         auto alive = message.initKeepAlive();
                         alive.setSession(id_.value);
                         alive.setTellAgain(true);
                       }),
            OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 INTERNAL rank 1 command 3: boom",
                                         "failed 1.0 INTERNAL rank 1 command 3: boom", "credit 0",
                                         HasSubstr("alive")));
  ASSERT_EQ(Reset("c", id_, 1, 10), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 2: boom"));
}

TEST_F(SessionFailuresTest, FailureOfAGenerationThatIsOverReachesRanksThatAreStillInIt) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Forget();
  Fail(0, id_, 2, "of a rank behind", 0);
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 2: of a rank behind"));
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_TRUE(session(id_).failure.ok()) << "the new generation has not failed";
}

// Else the client would wait for what a rank executes below the failing command, however long.
TEST_F(SessionFailuresTest, ASecondResetEndsWhatRanksStillExecuteBelowTheFailingCommand) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Forget();
  ASSERT_EQ(Reset("c", id_, 2, 10), OkStatus());
  EXPECT_THAT(Aborts(),
              ElementsAre("1.1 from 0: session 1 was reset", "1.0 from 0: session 1 was reset"));
}

TEST_F(SessionFailuresTest, ASecondResetDoesSoAlsoIfTheNewGenerationHasFailed) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Fail(1, id_, 5, "again", 1);
  Forget();
  ASSERT_EQ(Reset("c", id_, 2, 10), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre("1.1 from 5: again", "1.0 from 0: again"));
}

TEST_F(SessionFailuresTest, FailureOfAGenerationThatIsYetToComeCountsForNothing) {
  Fail(1, id_, 3, "boom", 1);
  Fail(1, SessionId(99), 3, "boom");
  EXPECT_THAT(Aborts(), IsEmpty());
  EXPECT_TRUE(session(id_).failure.ok());
}

TEST_F(SessionFailuresTest, EachGenerationHasItsOwnFirstCause) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Forget();
  Fail(0, id_, 5, "another", 1);
  EXPECT_THAT(Aborts(), ElementsAre("1.1 from 5: another"));
  EXPECT_THAT(ToClient("c"), ElementsAre("failed 1.1 INTERNAL rank 0 command 5: another",
                                         "answer 9 INTERNAL rank 0 command 5: another"));
}

TEST_F(SessionFailuresTest, RequestsOfAFailedSessionAreAnsweredAtOnce) {
  Fail(1, id_, 3, "boom");
  Forget();
  ASSERT_EQ(Batch("c", id_, 5, 9), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 INTERNAL rank 1 command 3: boom"));
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("command 5"))) << "its kill list counts";
}

TEST_F(SessionFailuresTest, WorkersAreToldToAbortBeforeAResetIsOrdered) {
  ASSERT_EQ(Batch("c", id_, 5), OkStatus());
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  EXPECT_THAT(Journal(),
              ElementsAre("all: 3: session 1.0 command 5", "abort 1.0 from 0: session 1 was reset",
                          "c: failed 1.0 ABORTED: session 1 was reset",
                          "all: 4: session 1.1 reset from 0"));
}

TEST_F(SessionFailuresTest, ResetOfAHealthySessionIsNoFailureInTheLog) {
  testing::internal::CaptureStdout();
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("session is reset by its client"), Not(HasSubstr("failed"))));
  testing::internal::CaptureStdout();
  Fail(1, id_, 3, "boom", 1);
  ASSERT_EQ(Reset("c", id_, 2, 10), OkStatus());
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("session failed: rank 1, command 3: boom"));
}

// Rank 1 waits in command 4 for rank 0, which waits in command 2 for the other half of a message.
class WantOfARankTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c", [](auto open) { open.setNumGroups(2); });
    ASSERT_EQ(Batch("c", id_, 1, 0, 8, 640), OkStatus());
    WorkerActivity& activity = liveness_.heard[0].activity;
    activity.kind = WorkerActivity::Kind::kCollective;
    activity.session = id_;
    activity.command = 2;
    activity.what = "send to next group";
    activity.since = 4min;
    Forget();
  }
  void FailForWant(StatusCode code = StatusCode::kDeadlineExceeded) {
    Fail(1, id_, 4, "rank 0 did not come to allreduce in time", 0, code);
  }
  SessionId id_;
};

// It said that rank 0 had not come to the allreduce.
TEST_F(WantOfARankTest, TheMessageThatTheOtherRankWaitsInIsTheCause) {
  FailForWant();
  EXPECT_THAT(ToClient("c"),
              ElementsAre("failed 1.0 DEADLINE_EXCEEDED rank 0 command 2: rank 0 sends to rank 1, "
                          "which has not come to its receive; meanwhile, in command 4 of rank 1: "
                          "rank 0 did not come to allreduce in time"));
  EXPECT_EQ(session(id_).failure.function, "send to next group");
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("1.0 from 2: rank 0 sends to rank 1")));
}

TEST_F(WantOfARankTest, AReceiveThatARankWaitsInIsTheCauseAsWell) {
  std::swap(liveness_.heard[0], liveness_.heard[1]);
  liveness_.heard[1].activity.what = "receive from previous group";
  Fail(0, id_, 4, "rank 1 did not come to barrier", 0, StatusCode::kDeadlineExceeded);
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("rank 1 command 2: rank 1 receives from rank 0, which has not "
                                    "come to its send; meanwhile, in command 4 of rank 0: ")));
}

TEST_F(WantOfARankTest, WhatIsNoWantOfThatRankKeepsItsCause) {
  const WorkerActivity waits = liveness_.heard[0].activity;
  int sessions = 0;
  // The command that a new session says it has failed at.
  const auto blamed = [&](const std::function<void(WorkerActivity&)>& change,
                          StatusCode code = StatusCode::kDeadlineExceeded) {
    const std::string client = "d" + std::to_string(++sessions);
    id_ = Open(client, [](auto open) { open.setNumGroups(2); });
    EXPECT_EQ(Batch(client, id_, 1, 0, 8, 640), OkStatus());
    WorkerActivity& activity = liveness_.heard[0].activity;
    activity = waits;
    activity.session = id_;
    change(activity);
    FailForWant(code);
    return session(id_).failure.command;
  };
  EXPECT_EQ(blamed([](WorkerActivity&) {}), 2u);
  EXPECT_EQ(blamed([](WorkerActivity&) {}, StatusCode::kInternal), 4u);
  EXPECT_EQ(blamed([](WorkerActivity&) {}, StatusCode::kUnavailable), 4u) << "a process has ended";
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.command = 4; }), 4u) << "it is not behind";
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.session = SessionId(99); }), 4u);
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.what = "allreduce"; }), 4u);
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.kind = WorkerActivity::Kind::kCommand; }), 4u)
      << "a function of that name";
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.since = 2s; }), 4u) << "it may be through by now";
  liveness_.heard[0].is_present = true;
  EXPECT_EQ(blamed([](WorkerActivity& it) { it.since = 2s; }), 2u);

  WorkerActivity& failed = liveness_.heard[1].activity;
  const auto blamed_for_one_of = [&](Rank first, Rank last) {
    return blamed([&](WorkerActivity& it) {
      failed = it;
      failed.command = 4;
      failed.what = "allreduce";
      failed.first_rank = first;
      failed.last_rank = last;
    });
  };
  EXPECT_EQ(blamed_for_one_of(0, 1), 2u);
  EXPECT_EQ(blamed_for_one_of(1, 1), 4u) << "rank 0 has no part in that collective";
}

TEST_F(SessionFailuresTest, OtherSessionsAreNotDisturbed) {
  const SessionId other = Open("d");
  ASSERT_EQ(Batch("d", other, 1, 9), OkStatus());
  Fail(1, id_, 3, "boom");
  EXPECT_THAT(ToClient("d"), IsEmpty());
  ReplyAll(other, 9);
  EXPECT_THAT(ToClient("d"), ElementsAre("answer 9 OK"));
}

TEST_F(SessionFailuresTest, OneErrorAnswersARequestThatSeveralRanksRefuse) {
  ASSERT_EQ(Batch("c", id_, 5, 9), OkStatus());
  Reply(0, id_, 9, StatusCode::kAborted);
  Reply(1, id_, 9, StatusCode::kInvalidArgument);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 INVALID_ARGUMENT rank 1: of rank 1"))
      << "an abort is a consequence";
}

}  // namespace
}  // namespace lockstep::controller
