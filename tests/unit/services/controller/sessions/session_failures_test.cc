#include "services/controller/sessions/session_failures.h"

#include <gmock/gmock.h>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

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
