#include "services/controller/world/admission.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using AdmissionTest = PartsFixture;

TEST_F(AdmissionTest, WorkersWaitUntilAllRanksAreThereAndAreWelcomedTogether) {
  Start();
  Hello("a", 1);
  EXPECT_THAT(ToWorker("a"), ElementsAre("wait"));
  Hello("b", -1);
  EXPECT_THAT(ToWorker("b"), ElementsAre("welcome rank 0 epoch 500 forget"));
  EXPECT_THAT(ToWorker("a"), ElementsAre("welcome rank 1 epoch 500 forget"));
  EXPECT_THAT(liveness_.expected, ElementsAre(0, 1));
}

TEST_F(AdmissionTest, HelloOfAWorkerThatWaitsIsASignOfLife) {
  Start();
  Hello("a", 1);
  Forget();
  Hello("a", 1);
  EXPECT_THAT(ToWorker("a"), ElementsAre("wait"));
  EXPECT_THAT(liveness_.alive, ElementsAre(1));
  EXPECT_EQ(liveness_.last_watch, 1u);
}

TEST_F(AdmissionTest, HelloOfAWorkerThatIsWelcomeIsNotAnswered) {
  StartReady();
  Hello("w0", 0);
  EXPECT_THAT(ToWorker("w0"), IsEmpty());
}

// An answer to one member alone would end the tree in which others pass commands on.
TEST_F(AdmissionTest, AWelcomeWorkerThatWantsAnotherRankIsNotAnswered) {
  StartReady();
  Hello("w0", 1);
  EXPECT_THAT(ToWorker("w0"), IsEmpty());
}

TEST_F(AdmissionTest, WorkerOfAnotherClusterIsRefused) {
  Start();
  Hello("a", 0, [](auto hello) { hello.setCluster("another"); });
  EXPECT_THAT(ToWorker("a"), ElementsAre(StartsWith("refused FAILED_PRECONDITION")));
}

TEST_F(AdmissionTest, RankOfAWorkerThatLivesIsRefused) {
  Start();
  Hello("a", 1);
  Hello("b", 1);
  EXPECT_THAT(ToWorker("b"), ElementsAre(StartsWith("refused ALREADY_EXISTS: rank 1 is taken")));
}

TEST_F(AdmissionTest, WorkerThatLeavesBeforeItsWelcomeFreesItsRank) {
  Start();
  Hello("a", 1);
  ASSERT_EQ(FromWorker("a", [](auto message) { message.setGoodbye("stopped"); }), OkStatus());
  EXPECT_THAT(liveness_.forgotten, ElementsAre(1));
  Forget();
  Hello("b", 1);
  EXPECT_THAT(ToWorker("b"), ElementsAre("wait"));
}

TEST_F(AdmissionTest, NoneIsWelcomedIntoAWorldThatIsBrokenAlready) {
  Start();
  Hello("a", 1);
  liveness_.losses.push_back({1, WatchId(1), "killed", {}});
  Hello("b", 0);
  EXPECT_THAT(ToWorker("b"), ElementsAre("wait"));
  Forget();
  Hello("c", 1);
  EXPECT_THAT(ToWorker("b"), ElementsAre(StartsWith("welcome rank 0")));
}

TEST_F(AdmissionTest, WorkerOutOfReachIsToldAndComesInOnceItIsReached) {
  Start();
  reachability_.answers["tcp://away:1"] = std::nullopt;
  const auto away = [](wire::Hello::Builder hello) { hello.setBulkEndpoint("tcp://away:1"); };
  Hello("a", 0, away);
  EXPECT_THAT(ToWorker("a"), IsEmpty()) << "it is being tried";
  reachability_.answers["tcp://away:1"] = Unavailable("tcp://away:1 does not answer: timed out");
  dispatcher_->HandleReachResults();
  EXPECT_THAT(ToWorker("a"),
              ElementsAre(StartsWith("out of reach: the controller cannot connect to worker")));
  reachability_.answers["tcp://away:1"] = OkStatus();
  Hello("a", 0, away);
  EXPECT_THAT(ToWorker("a"), ElementsAre("wait"));
}

TEST_F(AdmissionTest, RanksThatNoClientCopiesToNeedNotBeReached) {
  Start();
  reachability_.answers["tcp://away:1"] = std::nullopt;
  Hello("a", 1, [](wire::Hello::Builder hello) { hello.setBulkEndpoint("tcp://away:1"); });
  EXPECT_THAT(ToWorker("a"), ElementsAre("wait"));
}

// Of a thousand that take any rank few are tried.
TEST_F(AdmissionTest, OnceRankZeroIsTakenWhoTakesAnyRankNeedNotBeReached) {
  Start();
  reachability_.answers["tcp://away:1"] = std::nullopt;
  const auto away = [](wire::Hello::Builder hello) { hello.setBulkEndpoint("tcp://away:1"); };
  Hello("a", -1, away);
  EXPECT_THAT(ToWorker("a"), IsEmpty()) << "it is being tried";
  Hello("b", 0);
  Hello("c", -1, away);
  EXPECT_THAT(ToWorker("c"), ElementsAre(StartsWith("welcome rank 1")));
}

TEST_F(AdmissionTest, WhoTakesTheRankOfOneThatWasJustKilledMustBeReached) {
  Start();
  Hello("a", 0);
  reachability_.answers["tcp://away:1"] = std::nullopt;
  liveness_.losses.push_back({0, WatchId(1), "killed", {}});
  Hello("b", -1, [](wire::Hello::Builder hello) { hello.setBulkEndpoint("tcp://away:1"); });
  EXPECT_THAT(ToWorker("b"), IsEmpty()) << "it is being tried";
}

TEST_F(AdmissionTest, WorkerThatLostSightOfTheControllerIsLostAndComesBackLikeAnyOther) {
  StartReady();
  Open("c");
  Hello("w1 again", 1, [](wire::Hello::Builder hello) {
    hello.initResume().setWorldSize(2);
    hello.getResume().setEpoch(500);
  });
  EXPECT_THAT(liveness_.given_up, ElementsAre(1));
  EXPECT_THAT(ToWorker("w1 again"), ElementsAre(StartsWith("welcome rank 1 epoch 1000")));
  EXPECT_THAT(ToClient("c"),
              testing::Contains(HasSubstr("it had heard nothing of the controller")));
}

TEST_F(AdmissionTest, WorkerThatHasKeptMoreGetsTheRankOfOneThatWaits) {
  for (const Rank rank : {0, 1}) {
    Start();
    Hello("new", rank);
    Forget();
    Hello("old", rank, [](wire::Hello::Builder hello) {
      hello.initResume().setWorldSize(2);
      hello.getResume().setEpoch(400);
    });
    EXPECT_THAT(ToWorker("new"), ElementsAre(HasSubstr("refused ALREADY_EXISTS: rank " +
                                                       std::to_string(rank) + " was given to")));
    EXPECT_THAT(ToWorker("old"), ElementsAre("wait"));
  }
}

TEST_F(AdmissionTest, WorkerThatHasKeptNoMoreThanOneThatWaitsDoesNotGetItsRank) {
  const auto of_epoch_400 = [](wire::Hello::Builder hello) {
    hello.initResume().setWorldSize(2);
    hello.getResume().setEpoch(400);
  };
  Start();
  Hello("first", 1, of_epoch_400);
  Forget();
  Hello("second", 1, of_epoch_400);
  EXPECT_THAT(ToWorker("first"), IsEmpty());
  EXPECT_THAT(ToWorker("second"), ElementsAre(HasSubstr("refused ALREADY_EXISTS: rank 1")));
}

TEST_F(AdmissionTest, WorkerMayFollowOneThatIsSilentUntilItIsKnownWhetherThatLives) {
  StartReady();
  liveness_.heard[1].heartbeat_age = 700ms;
  Hello("next", 1);
  EXPECT_THAT(ToWorker("next"), ElementsAre("wait"));
  clock_.now += 500ms;
  liveness_.heard[1].heartbeat_age = 100ms;  // it lives
  Hello("next", 1);
  EXPECT_THAT(ToWorker("next"), ElementsAre(StartsWith("refused ALREADY_EXISTS")));
}

TEST_F(AdmissionTest, WorkerThatHasNotJoinedIsNotHeard) {
  Start();
  EXPECT_EQ(FromWorker("stranger", [](auto message) { message.initReady(); }).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(FromWorker("stranger", [](auto message) { message.setGoodbye("refused"); }),
            OkStatus());
}

}  // namespace
}  // namespace lockstep::controller
