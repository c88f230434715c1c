#include "services/controller/world/world.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/base/host_identity.h"
#include "runtime/control/batch.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class WorldTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c");
  }
  void Await(uint64_t request, uint64_t timeout_millis = 1000) {
    ASSERT_EQ(FromClient("c",
                         [&](auto message) {
                           auto await = message.initAwaitWorkers();
                           await.setSession(id_.value);
                           await.setRequest(request);
                           await.setTimeoutMillis(timeout_millis);
                         }),
              OkStatus());
  }
  SessionId id_;
};

TEST_F(WorldTest, LossFailsAllSessionsAndBreaksTheWorld) {
  const SessionId other = Open("d");
  ASSERT_EQ(Batch("c", id_, 1, 9), OkStatus());
  Forget();
  Lose(1, "killed");
  EXPECT_THAT(liveness_.broken, ElementsAre(kIncarnation));
  EXPECT_THAT(ToClient("c"),
              ElementsAre("failed 1.0 UNAVAILABLE rank 1: worker rank 1 (node:101) is lost: killed"
                          "; start lockstep-worker again with rank=1",
                          "answer 9 UNAVAILABLE rank 1: worker rank 1 (node:101) is lost: killed"
                          "; start lockstep-worker again with rank=1",
                          "credit 0"));
  EXPECT_THAT(ToClient("d"), ElementsAre(StartsWith("failed 2.0 UNAVAILABLE"), "credit 0"));
  EXPECT_THAT(Aborts(), ElementsAre(StartsWith("1.0 from 0"), StartsWith("2.0 from 0")));
  EXPECT_FALSE(session(other).failure.ok());
  EXPECT_EQ(metrics_->counts().workers_lost.value(), 1u);
}

TEST_F(WorldTest, AWelcomeSaysWhereTheRingIsAndALossGivesItUp) {
  rings_.are_on = true;
  Lose(1, "killed");
  EXPECT_THAT(rings_.given_up, ElementsAre("w1"));
  Forget();
  Hello("w2", 1);
  EXPECT_THAT(ToWorker("w0"), ElementsAre(HasSubstr("ring at rings: nonce of w0")));
  EXPECT_THAT(ToWorker("w2"), Contains(HasSubstr("ring at rings: nonce of w2")));
}

TEST_F(WorldTest, AWorkerWhoseRingMakesNoSenseIsLost) {
  dispatcher_->HandleBrokenRing("w1", InvalidArgument("nonsense"));
  EXPECT_EQ(parts().membership.member(1).state, Membership::State::kLost);
  EXPECT_THAT(ToClient("c"),
              Contains(AllOf(StartsWith("failed"), HasSubstr("makes no sense: nonsense"))));
  EXPECT_THAT(rings_.given_up, ElementsAre("w1"));
  dispatcher_->HandleBrokenRing("nobody", InvalidArgument("nonsense"));
  EXPECT_THAT(rings_.given_up, ElementsAre("w1"));
}

// Who says that it can be in one, and shares no memory with the controller.
TEST_F(WorldTest, AWelcomeSaysThePlaceInTheTreeAndALossGivesItUp) {
  tree_.is_on = true;
  rings_.are_on = true;
  Lose(1, "killed");
  EXPECT_THAT(tree_.given_up, ElementsAre("w1"));
  Forget();
  Hello("w2", 1, [](wire::Hello::Builder hello) { hello.setRelays(true); });
  ASSERT_FALSE(tree_.arranged.empty());
  EXPECT_THAT(tree_.arranged.back(), ElementsAre("w2"));
  EXPECT_THAT(ToWorker("w2"), Contains(HasSubstr("place in tree")));
  EXPECT_THAT(ToWorker("w2"), Not(Contains(HasSubstr("ring at")))) << "it needs none";
  Lose(1, "killed");
  Hello("w3", 1, [](wire::Hello::Builder hello) {
    hello.setRelays(true);
    hello.getHost().setId(ThisHost().id);
  });
  EXPECT_THAT(tree_.arranged.back(), IsEmpty()) << "it may share memory";
}

TEST_F(WorldTest, AWorkerThatCannotGoOnInTheTreeIsLost) {
  dispatcher_->HandleBrokenPlace("w1", Unavailable("packet 3 is kept no more"));
  EXPECT_EQ(parts().membership.member(1).state, Membership::State::kLost);
  EXPECT_THAT(ToClient("c"),
              Contains(AllOf(StartsWith("failed"), HasSubstr("packet 3 is kept no more"))));
  EXPECT_THAT(tree_.given_up, ElementsAre("w1"));
}

TEST_F(WorldTest, LossTellsWhatTheWorkerWasExecuting) {
  liveness_.heard[1].is_present = true;
  WorkerActivity& activity = liveness_.heard[1].activity;
  activity.kind = WorkerActivity::Kind::kCommand;
  activity.session = id_;
  activity.command = 7;
  activity.what = "crash";
  Lose(1, "killed");
  EXPECT_THAT(ToClient("c"), Contains(AllOf(StartsWith("failed 1.0 UNAVAILABLE rank 1 command 7"),
                                            HasSubstr("it was executing command 7 (crash)"))));
}

TEST_F(WorldTest, LossTellsWhatMayBeBehindItAndWhereTheLogIs) {
  WorkerLoss loss{1, parts().membership.member(1).watch, "killed", {}};
  loss.hint = "for lack of memory";
  loss.log_tells = true;
  liveness_.losses.push_back(loss);
  dispatcher_->HandleLosses();
  EXPECT_THAT(ToClient("c"), Contains(HasSubstr("is lost: killed; for lack of memory; its log: "
                                                "`lockstep logs --rank 1")));
}

TEST_F(WorldTest, LossIsTheAnswerOfRequestsOfASessionThatHadFailedBefore) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  Fail(0, id_, 1, "boom");
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Forget();
  Lose(1, "killed");
  EXPECT_THAT(ToClient("c"), Contains(StartsWith("answer 9 UNAVAILABLE rank 1")));
}

TEST_F(WorldTest, ResetIsRefusedUntilAllAreReadyAgain) {
  Lose(1, "killed");
  Forget();
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("failed 1.1 UNAVAILABLE"),
                                         StartsWith("answer 9 UNAVAILABLE")));
  Hello("w2", 1);
  ASSERT_EQ(Reset("c", id_, 2, 10), OkStatus());
  EXPECT_THAT(ToClient("c"), Contains(StartsWith("answer 10 UNAVAILABLE")));
}

TEST_F(WorldTest, ReplacedRankMakesAnotherWorldForAll) {
  ASSERT_EQ(Batch("c", id_, 1, 0, 3), OkStatus());
  Lose(1, "killed");
  Forget();
  Hello("w2", 1);
  EXPECT_THAT(ToWorker("w0"), ElementsAre("welcome rank 0 epoch 1000 session 1.0 at 4"));
  EXPECT_THAT(ToWorker("w2"), ElementsAre("welcome rank 1 epoch 1000 session 1.0 at 4 forget"));
  EXPECT_THAT(ToClient("c"), IsEmpty()) << "not before all are ready";
  Ready("w0");
  Ready("w2");
  EXPECT_THAT(ToClient("c"), ElementsAre("replaced rank 1 from command 4"));
  EXPECT_THAT(Aborts(), ElementsAre(HasSubstr("1.0 from 0: worker rank 1")))
      << "the newcomer may not have heard it";
  EXPECT_EQ(metrics_->counts().workers_replaced.value(), 1u);
  ASSERT_EQ(Reset("c", id_, 1, 9), OkStatus());
  Reply(0, id_, 9);
  EXPECT_EQ(FromWorker("w2",
                       [&](auto message) {
                         auto reply = message.initReply();
                         reply.setSession(id_.value);
                         reply.setRequest(9);
                       }),
            OkStatus());
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 9 OK"));
}

TEST_F(WorldTest, NextWorldWaitsForTheLastLostRank) {
  Lose(0, "killed");
  Lose(1, "killed");
  Forget();
  Hello("w2", 1);
  EXPECT_THAT(ToWorker("w2"), ElementsAre("wait"));
  Hello("w3", 0);
  EXPECT_THAT(ToWorker("w2"), ElementsAre(StartsWith("welcome rank 1 epoch 1000")));
}

TEST_F(WorldTest, LossWhileAWorldConnectsBreaksThatToo) {
  Lose(1, "killed");
  Hello("w2", 1);
  Ready("w0");
  Forget();
  Lose(1, "killed again");
  EXPECT_THAT(liveness_.broken, ElementsAre(kIncarnation, Epoch(1000)));
  Hello("w3", 1);
  EXPECT_THAT(ToWorker("w3"), ElementsAre(StartsWith("welcome rank 1 epoch 1001")))
      << "greater than before, though the clock stands still";
}

// The client waits with a full window: were it told less than that, it would wait for ever, for the
// newcomers have nothing to report.
TEST_F(WorldTest, LossOfAllWorkersGivesAFullWindowBackAlsoAfterBytesWereLost) {
  const uint64_t cost = control::FlowCost(64);
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  ASSERT_EQ(Reset("c", id_, 1, 9, /*next_command=*/5, /*sent_bytes=*/4 * cost), OkStatus());
  ASSERT_EQ(Batch("c", id_, 5), OkStatus());
  Forget();
  Lose(0, "killed");
  Lose(1, "killed");
  EXPECT_THAT(ToClient("c"), Contains("credit " + std::to_string(5 * cost)));
  Hello("w2", 0);
  Hello("w3", 1);
  Ready("w2");
  Ready("w3");
  EXPECT_EQ(session(id_).commands.credit(), 5 * cost);
}

// Its controller had a clock that was ahead of this one's.
TEST_F(WorldTest, NextEpochIsGreaterThanAnyThatANewcomerHasBeenIn) {
  Lose(1, "killed");
  Forget();
  Hello("w2", 1, [](auto hello) {
    auto resume = hello.initResume();
    resume.setController(7000);
    resume.setEpoch(8000);
    resume.setWorkedEpoch(9000);
    resume.setWorldSize(2);
  });
  EXPECT_THAT(ToWorker("w2"), ElementsAre(StartsWith("welcome rank 1 epoch 9001")));
}

TEST_F(WorldTest, ReadyOfAnEarlierWorldDoesNotCount) {
  Lose(1, "killed");
  Hello("w2", 1);
  Ready("w2");
  Forget();
  ASSERT_EQ(
      FromWorker("w0", [](auto message) { message.initReady().setEpoch(kIncarnation.value); }),
      OkStatus());
  EXPECT_FALSE(parts().membership.AllReady());
  Ready("w0");
  EXPECT_TRUE(parts().membership.AllReady());
}

TEST_F(WorldTest, NewsOfAWorkerWhoseRankIsAnothersByNowCountForNothing) {
  const WatchId old = parts().membership.member(1).watch;
  Lose(1, "killed");
  Hello("w2", 1);
  Forget();
  liveness_.losses.push_back({1, old, "no heartbeat", {}});
  dispatcher_->HandleLosses();
  EXPECT_TRUE(parts().membership.IsWelcome(1));
}

TEST_F(WorldTest, WorkerThatSaysGoodbyeIsLost) {
  ASSERT_EQ(FromWorker("w1", [](auto message) { message.setGoodbye("stopped by hand"); }),
            OkStatus());
  EXPECT_THAT(ToClient("c"), Contains(HasSubstr("is lost: it left: stopped by hand")));
}

TEST_F(WorldTest, BatchesGoToWorkersThatAreWelcomeOnly) {
  Lose(1, "killed");
  Forget();
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  EXPECT_THAT(*parts().outbox.items().front().workers, ElementsAre("w0"));
  Hello("w2", 1);
  ASSERT_EQ(Batch("c", id_, 2), OkStatus());
  EXPECT_THAT(*parts().outbox.items().front().workers, ElementsAre("w0"))
      << "as it was when that batch was ordered";
  EXPECT_THAT(*parts().outbox.items().back().workers, ElementsAre("w0", "w2"));
}

TEST_F(WorldTest, LostWorkerHoldsNoCreditBack) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  Consume(0, id_, 576);
  Lose(1, "killed");
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("failed"), "credit 576"));
}

TEST_F(WorldTest, SessionThatIsBeingClosedIsNotHandedToNewcomers) {
  Close("c", id_, 9);
  Lose(1, "killed");
  Forget();
  Hello("w2", 1);
  EXPECT_THAT(ToWorker("w2"), ElementsAre("welcome rank 1 epoch 1000 forget"));
}

TEST_F(WorldTest, TroubleIsWhatIsMissing) {
  Lose(1, "killed");
  Hello("w2", 1);
  ASSERT_EQ(FromWorker("w2",
                       [](auto message) {
                         message.initTrouble().setEpoch(1000);
                         message.getTrouble().setWhy("no route");
                       }),
            OkStatus());
  EXPECT_EQ(parts().membership.member(1).connection, "no route");
}

TEST_F(WorldTest, ClientThatWaitsForWorkersIsAnsweredWhenAllAreReady) {
  Await(8);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 8 OK"));
  Lose(1, "killed");
  Forget();
  Await(9);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Hello("w2", 1);
  Ready("w0");
  Ready("w2");
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("replaced"), "answer 9 OK"));
}

TEST_F(WorldTest, ClientThatWaitsForWorkersForTooLongIsToldWhatIsMissing) {
  Lose(1, "killed");
  Forget();
  Await(9, 1000);
  Pass(1100ms);
  EXPECT_THAT(ToClient("c"),
              ElementsAre(AllOf(StartsWith("answer 9 UNAVAILABLE"),
                                HasSubstr("is lost: killed; start lockstep-worker again"))));
}

TEST_F(WorldTest, WorkerThatHasJustBeenKilledIsNotReady) {
  liveness_.losses.push_back({1, parts().membership.member(1).watch, "killed", {}});
  Await(9);
  EXPECT_THAT(ToClient("c"), testing::Not(Contains("answer 9 OK")));
}

TEST_F(WorldTest, OnlyAClientThatMayWaitHasLossesLookedFor) {
  Close("c", id_, 9);
  Reply(0, id_, SessionEntry::kEndRequest.value);
  liveness_.losses.push_back({1, parts().membership.member(1).watch, "killed", {}});
  const auto await = [&](const control::PeerName& client) {
    return FromClient(client,
                      [&](auto message) { message.initAwaitWorkers().setSession(id_.value); });
  };
  EXPECT_EQ(await("c").code(), StatusCode::kFailedPrecondition) << "it is being closed";
  EXPECT_EQ(await("stranger").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(liveness_.losses.size(), 1u) << "nothing has asked for them";
}

TEST_F(WorldTest, WorkersWaitsOfOneSessionAreBounded) {
  Lose(1, "killed");
  for (uint64_t request = 1; request <= 256; ++request) Await(request);
  Forget();
  Await(300);
  EXPECT_THAT(ToClient("c"), ElementsAre(StartsWith("answer 300 RESOURCE_EXHAUSTED")));
}

TEST_F(WorldTest, WorkerThatDoesNotGetWhatWasSentIsGivenUp) {
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  liveness_.heard[1].activity.received = 1;
  EXPECT_EQ(FromClient("c", [&](auto message) { message.initKeepAlive().setSession(1); }),
            OkStatus());
  Forget();
  Pass(9s);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  EXPECT_EQ(FromClient("c", [&](auto message) { message.initKeepAlive().setSession(1); }),
            OkStatus());
  Forget();
  Pass(9s);
  EXPECT_THAT(ToClient("c"),
              Contains(HasSubstr("it waits for commands, but has not got batch 2, sent more than "
                                 "7200 ms ago: its connection is broken")));
  EXPECT_THAT(liveness_.given_up, ElementsAre(1));
}

// What it gets from another worker is sent to it directly before it is given up.
TEST_F(WorldTest, WorkerThatGetsNothingThroughAnotherGetsItDirectly) {
  tree_.by_relay = {"w1"};
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  liveness_.heard[1].activity.received = 1;
  for (int i = 0; i < 4 && liveness_.given_up.empty(); ++i) {
    EXPECT_EQ(FromClient("c", [&](auto message) { message.initKeepAlive().setSession(1); }),
              OkStatus());
    Pass(9s);
  }
  EXPECT_THAT(tree_.by_relay, IsEmpty());
  EXPECT_THAT(liveness_.given_up, ElementsAre(1)) << "that did not help either";
}

// Another rank is busy, and the ring is full: what this one has not got was not written yet.
TEST_F(WorldTest, WorkerThatIsHeldBackByAnotherIsNot) {
  rings_.held_back = {"w1"};
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  liveness_.heard[1].activity.received = 1;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(FromClient("c", [&](auto message) { message.initKeepAlive().setSession(1); }),
              OkStatus());
    Pass(9s);
  }
  EXPECT_THAT(liveness_.given_up, IsEmpty());
  rings_.held_back.clear();
  EXPECT_EQ(FromClient("c", [&](auto message) { message.initKeepAlive().setSession(1); }),
            OkStatus());
  Pass(9s);
  EXPECT_THAT(liveness_.given_up, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::controller
