#include "services/controller/sessions/session_commands.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/control/batch.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionCommandsTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c");
  }
  Status Name(const std::string& name, uint64_t packed, uint64_t request, uint64_t next = 0) {
    return FromClient("c", [&](auto message) {
      auto named = message.initNameRegister();
      named.setSession(id_.value);
      named.setRequest(request);
      named.setTimeoutMillis(1000);
      named.setNextCommand(next);
      named.initName().setName(name);
      named.getName().setRegister(packed);
    });
  }

  SessionId id_;
};

TEST_F(SessionCommandsTest, BatchesOfAllSessionsAreInOneOrder) {
  const SessionId other = Open("d");
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  ASSERT_EQ(Batch("d", other, 1), OkStatus());
  ASSERT_EQ(Batch("c", id_, 2), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("3: session 1.0 command 1", "4: session 2.0 command 1",
                                          "5: session 1.0 command 2"));
  EXPECT_THAT(ToClient("c"), IsEmpty());
}

TEST_F(SessionCommandsTest, BodyIsSentOnAsItIs) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  const Outbox::Item& item = parts().outbox.items().back();
  EXPECT_THAT(*item.workers, ElementsAre("w0", "w1"));
  ASSERT_EQ(item.message.size(), 2u);
  EXPECT_EQ(item.message[1].size(), 64u);
  EXPECT_EQ(*item.message[1].data(), std::byte{'b'});
}

TEST_F(SessionCommandsTest, TimelineShowsABatchUntilItIsSent) {
  ASSERT_EQ(parts().tracing.Begin("viewer", 10, clock_.now), OkStatus());
  const TimePoint arrived = clock_.now;
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  clock_.now += 3ms;
  parts().broadcaster.NoteSent(parts().outbox.items().back().batch);
  parts().tracing.Stop();
  const trace::Events told = parts().tracing.Events(0);
  ASSERT_EQ(told.events.size(), 1u);
  EXPECT_EQ(told.events[0].kind, trace::Kind::kBatch);
  EXPECT_EQ(told.events[0].begin, trace::Nanos(arrived));
  EXPECT_EQ(told.events[0].end, trace::Nanos(clock_.now));
  EXPECT_EQ(told.events[0].bytes, 64u);
}

TEST_F(SessionCommandsTest, RequestIsAnsweredWhenAllRanksHave) {
  ASSERT_EQ(Batch("c", id_, 1, 9), OkStatus());
  Reply(1, id_, 9);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  clock_.now += 3ms;
  Reply(0, id_, 9);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
  EXPECT_EQ(metrics_->counts().requests.Count(), 1u);
}

TEST_F(SessionCommandsTest, RequestThatIsNotAnsweredInTimeNamesTheLateRank) {
  ASSERT_EQ(Batch("c", id_, 1, 9), OkStatus());
  Reply(0, id_, 9);
  liveness_.heard[1].activity.kind = WorkerActivity::Kind::kCommand;
  liveness_.heard[1].activity.session = id_;
  liveness_.heard[1].activity.command = 1;
  liveness_.heard[1].activity.what = "slow";
  Pass(5100ms);
  EXPECT_THAT(
      ToClient("c"),
      ElementsAre(HasSubstr("answer 9 DEADLINE_EXCEEDED rank 1 command 1: no answer in time")));
}

TEST_F(SessionCommandsTest, BatchThatMakesNoSenseIsRefusedAndChangesNothing) {
  EXPECT_EQ(Batch("c", id_, 0).code(), StatusCode::kInvalidArgument) << "the controller's own";
  EXPECT_EQ(Batch("c", id_, 1, 0, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Batch("c", id_, 1, 0, 5, 64).code(), StatusCode::kInvalidArgument) << "4 fit at most";
  EXPECT_EQ(Batch("c", id_, 1, SessionEntry::kEndRequest.value).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Batch("d", id_, 1).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Batch("c", SessionId(99), 1).code(), StatusCode::kNotFound);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  EXPECT_THAT(ToClient("d"), ElementsAre(HasSubstr("refused PERMISSION_DENIED")));
  EXPECT_EQ(Batch("c", id_, 1), OkStatus());
}

TEST_F(SessionCommandsTest, GapFailsTheSessionUntilAResetSaysWhereItGoesOn) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  ASSERT_EQ(Batch("c", id_, 3, 9), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 command 1"));
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("failed 1.0 DATA_LOSS"), HasSubstr("answer 9 DATA_LOSS")));
  // The client has sent three batches; one of them was lost, and the third was not sent on.
  const uint64_t cost = control::FlowCost(64);
  ASSERT_EQ(Reset("c", id_, 1, 10, 4, 3 * cost), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("credit " + std::to_string(2 * cost)));
  EXPECT_THAT(ToAllWorkers(), ElementsAre("3: session 1.1 reset from 0"));
  ASSERT_EQ(Batch("c", id_, 4), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("4: session 1.1 command 4"));
}

// The workers would skip its commands in silence, and none of them would answer.
TEST_F(SessionCommandsTest, BatchOfAGenerationThatHasNotBegunFailsTheSession) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  ASSERT_EQ(Batch("c", id_, Generation(1), 2, 9), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 command 1"));
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("failed 1.0 DATA_LOSS"),
                          AllOf(HasSubstr("answer 9 DATA_LOSS"), HasSubstr("generation 1"))));
  // A reset mends it, though the one before was lost.
  ASSERT_EQ(Reset("c", id_, 2, 10, 3, 2 * control::FlowCost(64)), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("3: session 1.2 reset from 0"));
  ASSERT_EQ(Batch("c", id_, Generation(2), 3), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("4: session 1.2 command 3"));
}

// Names that are given back are freed whatever the generation.
TEST_F(SessionCommandsTest, BatchOfAnEarlierGenerationIsSentOn) {
  ASSERT_EQ(Reset("c", id_, 1, 10), OkStatus());
  ASSERT_EQ(Batch("c", id_, Generation(0), 1), OkStatus());
  EXPECT_THAT(ToAllWorkers(),
              ElementsAre("2: session 1.1 reset from 0", "3: session 1.0 command 1"));
}

TEST_F(SessionCommandsTest, RepetitionBreaksTheSessionForGood) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("failed 1.0 DATA_LOSS")));
  ASSERT_EQ(Reset("c", id_, 1, 10), OkStatus());
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("failed 1.1 DATA_LOSS"), HasSubstr("answer 10 DATA_LOSS")))
      << "no reset mends it";
}

TEST_F(SessionCommandsTest, MoreUnderWayThanAnyClientMayHaveBreaksTheSession) {
  options_.flow_window_bytes = 1024;
  options_.max_batch_bytes = 1024;
  StartReady();
  id_ = Open("c");
  const size_t body = size_t{9} << 20;
  ASSERT_EQ(Batch("c", id_, 1, 0, 1, body), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("failed 1.0 RESOURCE_EXHAUSTED")));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

TEST_F(SessionCommandsTest, CreditIsGivenWhenTheSlowestWorkerHasComeFurther) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  const uint64_t cost = control::FlowCost(64);
  Consume(0, id_, cost);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Consume(1, id_, cost);
  EXPECT_THAT(ToClient("c"), ElementsAre("credit " + std::to_string(cost)));
  Consume(1, id_, cost);
  EXPECT_THAT(ToClient("c"), IsEmpty());
}

TEST_F(SessionCommandsTest, ResetBeginsTheNextGenerationAndAbortsWhatIsUnderWay) {
  ASSERT_EQ(Batch("c", id_, 1, 8), OkStatus());
  Forget();
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 0: session 1 was reset"));
  EXPECT_THAT(ToClient("c"), ElementsAre("failed 1.0 ABORTED: session 1 was reset",
                                         "answer 8 ABORTED: session 1 was reset"));
  EXPECT_THAT(ToAllWorkers(), ElementsAre("3: session 1.1 reset from 0"));
  ReplyAll(id_, 9);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
  EXPECT_TRUE(session(id_).failure.ok());
}

TEST_F(SessionCommandsTest, ResetAfterAFailureTellsFromWhereOnWorkIsGivenUp) {
  ASSERT_EQ(Batch("c", id_, 1, 0, 3), OkStatus());
  Fail(1, id_, 2, "boom");
  Forget();
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  EXPECT_THAT(Aborts(), ElementsAre("1.0 from 2: boom")) << "for ranks that have not heard it";
  EXPECT_THAT(ToAllWorkers(), ElementsAre("3: session 1.1 reset from 2"));
}

TEST_F(SessionCommandsTest, GenerationsFollowOneAnotherWithSmallGapsOnly) {
  EXPECT_EQ(Reset("c", id_, 0, 9).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Reset("c", id_, 1001, 9).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Reset("c", id_, 1000, 9), OkStatus()) << "resets may have been lost on their way";
  EXPECT_EQ(Reset("c", id_, 1000, 10).code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionCommandsTest, ResetsAheadOfTheSlowestRankAreBounded) {
  for (uint32_t generation = 1; generation < 2000; ++generation) {
    ASSERT_EQ(Reset("c", id_, generation, generation), OkStatus());
    Reply(0, id_, generation, StatusCode::kOk, generation);
    Forget();
  }
  ASSERT_EQ(Reset("c", id_, 2000, 9), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("answer 9 RESOURCE_EXHAUSTED: session 1 was "
                                                   "reset 2000 times without rank 1")));
  EXPECT_EQ(session(id_).generation, Generation(1999));
  Reply(1, id_, 1, StatusCode::kOk, 1);
  Forget();
  ASSERT_EQ(Reset("c", id_, 2000, 9), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("session 1.2000 reset")));
}

TEST_F(SessionCommandsTest, NamesAreKnownToWorkersBeforeTheyAreAnswered) {
  const uint64_t packed = RegisterId{3, 1}.Packed();
  ASSERT_EQ(Name("weights", packed, 9), OkStatus());
  EXPECT_THAT(ToAllWorkers(), ElementsAre("2: session 1.0 name weights"));
  EXPECT_THAT(ToClient("c"), IsEmpty());
  ReplyAll(id_, 9);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
  EXPECT_TRUE(session(id_).names.contains("weights"));
  ASSERT_EQ(Name("weights", 0, 10), OkStatus());
  EXPECT_THAT(session(id_).names, IsEmpty());
}

TEST_F(SessionCommandsTest, NameAfterCommandsThatWereLostIsNotGiven) {
  ASSERT_EQ(Name("weights", RegisterId{3, 1}.Packed(), 9, 5), OkStatus());
  EXPECT_THAT(ToClient("c"),
              ElementsAre(HasSubstr("failed 1.0 DATA_LOSS: commands 1 to 4 of session 1 were lost"),
                          HasSubstr("answer 9 DATA_LOSS")));
  EXPECT_THAT(session(id_).names, IsEmpty());
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

TEST_F(SessionCommandsTest, NamesHaveALength) {
  ASSERT_EQ(Name("", RegisterId{3, 1}.Packed(), 9), OkStatus());
  ASSERT_EQ(Name(std::string(256, 'n'), RegisterId{3, 1}.Packed(), 10), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("answer 9 INVALID_ARGUMENT"),
                                         HasSubstr("answer 10 INVALID_ARGUMENT")));
}

}  // namespace
}  // namespace lockstep::controller
