#include "services/controller/sessions/command_watch.h"

#include <gmock/gmock.h>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_THAT(Aborts(), IsEmpty());
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
  const control::RemoteError error = LateError(parts().membership, liveness_, id_, {0, 1});
  EXPECT_EQ(error.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.command, 3u);
  EXPECT_EQ(error.function, "slow");
  const control::RemoteError elsewhere =
      LateError(parts().membership, liveness_, SessionId(9), {1});
  EXPECT_EQ(elsewhere.rank, -1) << "another session's command is no place in this one";
}

}  // namespace
}  // namespace lockstep::controller
