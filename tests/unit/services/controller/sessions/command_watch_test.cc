#include "services/controller/sessions/command_watch.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CommandWatchTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c", [](auto open) { open.setCommandTimeoutMillis(2000); });
    WorkerActivity& activity = liveness_.heard[1].activity;
    activity.kind = WorkerActivity::Kind::kCommand;
    activity.session = id_;
    activity.command = 3;
    activity.what = "slow";
  }
  SessionId id_;
};

TEST_F(CommandWatchTest, SessionFailsWhenACommandTakesLongerThanItMay) {
  liveness_.heard[1].activity.since = 1900ms;
  parts().command_watch.Look();
  EXPECT_THAT(ToClient("c"), IsEmpty());
  liveness_.heard[1].activity.since = 2100ms;
  parts().command_watch.Look();
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("failed 1.0 DEADLINE_EXCEEDED rank 1 command 3: worker rank 1 "
                                    "(node:101) has been executing it for 2100 ms")));
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("1.0 from 3")));
  parts().command_watch.Look();
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("(rank 1)"))) << "it alone is told again";
}

TEST_F(CommandWatchTest, CollectivesAndCommandsFromBeforeAResetAreNotOverdue) {
  WorkerActivity& activity = liveness_.heard[1].activity;
  activity.since = 1h;
  activity.kind = WorkerActivity::Kind::kCollective;
  parts().command_watch.Look();
  EXPECT_TRUE(session(id_).failure.ok());
  activity.kind = WorkerActivity::Kind::kCommand;
  ASSERT_EQ(Batch("c", id_, 1, 0, 4), OkStatus());
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  parts().command_watch.Look();
  EXPECT_TRUE(session(id_).failure.ok());
}

// Aborts travel on the liveness connection, which may have been broken when one was sent.
class RepeatedAbortsTest : public CommandWatchTest {
 protected:
  void SetUp() override {
    CommandWatchTest::SetUp();
    liveness_.heard[1].activity = WorkerActivity();
    ASSERT_EQ(Batch("c", id_, 1, 0, 6, 640), OkStatus());
  }
  // Rank 0 has been in a collective for so long.
  void StayIn(uint64_t command, std::chrono::milliseconds since = 500ms) {
    WorkerActivity& activity = liveness_.heard[0].activity;
    activity.kind = WorkerActivity::Kind::kCollective;
    activity.session = id_;
    activity.command = command;
    activity.since = since;
  }
  std::vector<std::string> Repeated() {
    Forget();
    Pass(Timers::kInterval);
    return Aborts();
  }
};

TEST_F(RepeatedAbortsTest, RankThatStaysInAnAbortedCollectiveIsToldAgain) {
  Fail(1, id_, 3, "boom");
  StayIn(4);
  EXPECT_THAT(Repeated(), ElementsAre("1.0 from 3: boom (rank 0)"));
  EXPECT_THAT(Repeated(), ElementsAre("1.0 from 3: boom (rank 0)")) << "until it is heard";
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_EQ(metrics_->counts().aborts.value(), 1u);
  liveness_.heard[0].activity = WorkerActivity();
  EXPECT_THAT(Repeated(), IsEmpty());
}

// It may be a fragment that loops for ever.
TEST_F(RepeatedAbortsTest, RankThatStaysInAnAbortedCommandIsToldAgain) {
  Fail(1, id_, 3, "boom");
  StayIn(4);
  liveness_.heard[0].activity.kind = WorkerActivity::Kind::kCommand;
  EXPECT_THAT(Repeated(), ElementsAre("1.0 from 3: boom (rank 0)"));
}

TEST_F(RepeatedAbortsTest, WhatIsNotAbortedOrHasJustBegunIsNot) {
  StayIn(4);
  EXPECT_THAT(Repeated(), IsEmpty()) << "it has not failed";
  Fail(1, id_, 3, "boom");
  StayIn(2);
  EXPECT_THAT(Repeated(), IsEmpty()) << "what comes before a failure is executed";
  StayIn(4, 499ms);
  EXPECT_THAT(Repeated(), IsEmpty()) << "it may have heard the abort and be about to end";
  StayIn(4);
  liveness_.heard[0].activity.session = SessionId(9);
  EXPECT_THAT(Repeated(), IsEmpty());
}

TEST_F(RepeatedAbortsTest, RankIsToldOfTheGenerationThatItIsStillIn) {
  Fail(1, id_, 3, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  StayIn(4);
  EXPECT_THAT(Repeated(), ElementsAre(HasSubstr("1.0 from 3: ")));
  StayIn(2);
  EXPECT_THAT(Repeated(), IsEmpty());
  ASSERT_EQ(Batch("c", id_, 7, 0, 2, 640), OkStatus());
  Fail(1, id_, 8, "once more", 1);
  ASSERT_EQ(Reset("c", id_, 2, 10), OkStatus());
  StayIn(2);
  EXPECT_THAT(Repeated(), ElementsAre(HasSubstr("1.0 from 0: "))) << "the second reset ends that";
  StayIn(8);
  EXPECT_THAT(Repeated(), ElementsAre(HasSubstr("1.1 from 8: ")));
  StayIn(7);
  EXPECT_THAT(Repeated(), IsEmpty());
  StayIn(9);
  EXPECT_THAT(Repeated(), IsEmpty()) << "this generation has not failed";
}

TEST_F(RepeatedAbortsTest, EarlierFailureOfAPastGenerationIsRepeatedFromThere) {
  Fail(1, id_, 5, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  StayIn(4);
  EXPECT_THAT(Repeated(), IsEmpty());
  Fail(1, id_, 4, "of a rank behind", 0);
  EXPECT_THAT(Repeated(), ElementsAre(HasSubstr("1.0 from 4: ")));
}

TEST_F(RepeatedAbortsTest, GenerationsThatAllRanksHaveLeftAreForgotten) {
  for (uint32_t generation = 1; generation <= 3; ++generation) {
    ASSERT_EQ(Reset("c", id_, generation, 8 + generation), OkStatus());
  }
  EXPECT_EQ(session(id_).past_failures.size(), 3u);
  Reply(0, id_, 11, StatusCode::kOk, 3);
  Reply(1, id_, 11, StatusCode::kOk, 2);
  ASSERT_EQ(Reset("c", id_, 4, 12), OkStatus());
  EXPECT_EQ(session(id_).past_failures.size(), 2u) << "rank 1 may be in 2 or 3 still";
}

TEST_F(RepeatedAbortsTest, WorkOfASessionThatIsAbortedWhileItIsClosedIsAbortedAgain) {
  Close("c", id_, 9, 100);
  Pass(Timers::kInterval);
  StayIn(4);
  EXPECT_THAT(Repeated(), ElementsAre(AllOf(HasSubstr("1.0 from 0: session 1 was not closed in"),
                                            HasSubstr("(rank 0)"))));
}

TEST_F(RepeatedAbortsTest, WorkOfALostClientIsAbortedAgain) {
  Pass(10'500ms);
  StayIn(4);
  EXPECT_THAT(Repeated(), ElementsAre("1.0 from 0: its client is gone (rank 0)"));
}

TEST_F(CommandWatchTest, WorkerThatExecutesOneCommandForLongIsStuck) {
  WorkerActivity activity = liveness_.heard[1].activity;
  activity.since = 900ms;
  EXPECT_FALSE(IsStuck(activity, 1s));
  activity.since = 1s;
  EXPECT_TRUE(IsStuck(activity, 1s));
  activity.kind = WorkerActivity::Kind::kCollective;
  EXPECT_FALSE(IsStuck(activity, 1s)) << "it may be waiting for others";
}

TEST_F(CommandWatchTest, AFunctionThatIsAlwaysSlowIsNotStuck) {
  WorkerActivity& activity = liveness_.heard[1].activity;
  activity.launched = 7;
  activity.since = 1500ms;
  parts().command_watch.Look();
  EXPECT_TRUE(parts().command_watch.IsStuck(activity)) << "nothing is known of it yet";
  activity.launched = 8;  // the first has ended, and the function is called again
  activity.since = 10ms;
  parts().command_watch.Look();
  EXPECT_EQ(parts().command_watch.LongestBefore(activity), 1500ms);
  activity.since = 2900ms;
  EXPECT_FALSE(parts().command_watch.IsStuck(activity));
  activity.since = 3100ms;
  EXPECT_TRUE(parts().command_watch.IsStuck(activity)) << "that is longer than ever";
  activity.what = "another";
  activity.since = 1100ms;
  EXPECT_TRUE(parts().command_watch.IsStuck(activity));
}

TEST_F(CommandWatchTest, WhatWasAbortedSaysNothingAboutHowLongAFunctionTakes) {
  WorkerActivity& activity = liveness_.heard[1].activity;
  activity.launched = 7;
  activity.since = 2100ms;
  parts().command_watch.Look();  // longer than the session allows
  ASSERT_FALSE(session(id_).failure.ok());
  activity.launched = 8;
  parts().command_watch.Look();
  EXPECT_EQ(parts().command_watch.LongestBefore(activity), 0ms);
}

TEST_F(CommandWatchTest, LateAnswerNamesTheRankThatExecutesSomethingOfItsOwn) {
  liveness_.heard[0].activity.kind = WorkerActivity::Kind::kCollective;
  const control::RemoteError error =
      LateError(parts().membership, liveness_, parts().sessions, id_, {0, 1});
  EXPECT_EQ(error.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.command, 3u);
  EXPECT_EQ(error.function, "slow");
  const control::RemoteError elsewhere =
      LateError(parts().membership, liveness_, parts().sessions, SessionId(9), {1});
  EXPECT_EQ(elsewhere.rank, -1) << "another session's command is no place in this one";
}

// A function that asks for no abort held up all new clients, and no message told what to do.
TEST_F(CommandWatchTest, LateAnswerTellsHowToEndTheWorkOfASessionThatHasEnded) {
  const auto late = [&] {
    return LateError(parts().membership, liveness_, parts().sessions, SessionId(9), {0, 1}).message;
  };
  EXPECT_THAT(late(), Not(HasSubstr("has ended")));
  Close("c", id_, 9, 100);
  EXPECT_THAT(late(), Not(HasSubstr("has ended"))) << "it may finish its work";
  Pass(Timers::kInterval);
  EXPECT_THAT(late(),
              HasSubstr("no answer in time: rank 1 (node:101) executes command 3 (slow) of session "
                        "1 for 0.0 s, which has ended, and does not give up (`kill -9 101` on node "
                        "ends it; then start lockstep-worker again with rank=1); rank 0"));
}

}  // namespace
}  // namespace lockstep::controller
