#include "runtime/client/stall_diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Four workers that wait for commands, and have answered.
ClusterStatus Idle() {
  ClusterStatus status;
  for (Rank rank = 0; rank < 4; ++rank) {
    WorkerStatus worker;
    worker.rank = rank;
    worker.state = WorkerState::kReady;
    worker.reported = true;
    worker.activity.received = 9;
    status.workers.push_back(worker);
  }
  return status;
}

void Execute(WorkerStatus& worker, WorkerActivity::Kind kind, uint64_t command) {
  worker.activity.kind = kind;
  worker.activity.session = SessionId(3);
  worker.activity.command = command;
  worker.activity.since = std::chrono::seconds(3);
}

TEST(StallDiagnosisTest, AnIdleClusterHasNoBlocker) {
  const StallDiagnosis diagnosis = DiagnoseStall(Idle());
  EXPECT_THAT(diagnosis.blockers, IsEmpty());
  EXPECT_THAT(diagnosis.together, IsEmpty());
  EXPECT_EQ(diagnosis.summary,
            "no rank is stuck: nothing is executed, the workers wait for commands");
}

TEST(StallDiagnosisTest, WhoeverIsBehindHoldsUpThoseInTheCollective) {
  ClusterStatus status = Idle();
  for (Rank rank : {0, 1, 3})
    Execute(status.workers[static_cast<size_t>(rank)], WorkerActivity::Kind::kCollective, 18);
  Execute(status.workers[2], WorkerActivity::Kind::kCommand, 17);
  status.workers[2].stuck = true;
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_EQ(diagnosis.blockers[0].kind, Blocker::Kind::kBusy);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0, 1, 3));
  EXPECT_EQ(diagnosis.summary, "rank 2 is stuck, or slow, in a command");
  // Where it is known how long the function takes, that decides.
  status.workers[2].activity.what = "solve";
  status.workers[2].longest_before = std::chrono::seconds(1);
  EXPECT_EQ(DiagnoseStall(status).summary, "rank 2 is stuck in solve");
  status.workers[2].stuck = false;
  EXPECT_EQ(DiagnoseStall(status).summary,
            "no rank is stuck: the others wait for rank 2, busy in solve");
}

TEST(StallDiagnosisTest, RanksThatAllExecuteOneFunctionAreNamedTogether) {
  ClusterStatus status = Idle();
  for (WorkerStatus& worker : status.workers) {
    Execute(worker, WorkerActivity::Kind::kCommand, 17);
    worker.activity.what = "solve";
  }
  EXPECT_EQ(DiagnoseStall(status).summary, "no rank is stuck: ranks 0-3 are busy in solve");
  for (WorkerStatus& worker : status.workers) worker.stuck = true;
  EXPECT_EQ(DiagnoseStall(status).summary, "ranks 0-3 are stuck, or slow, in solve");
}

// A rank may be in a later batch than its peers, and have nothing to do with what they wait for.
TEST(StallDiagnosisTest, WhoeverIsAheadHoldsUpNobody) {
  ClusterStatus status = Idle();
  Execute(status.workers[0], WorkerActivity::Kind::kCollective, 18);
  Execute(status.workers[1], WorkerActivity::Kind::kCommand, 30);
  Execute(status.workers[2], WorkerActivity::Kind::kCommand, 17);
  Execute(status.workers[3], WorkerActivity::Kind::kCommand, 2);
  status.workers[3].activity.received = 10;
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 3u);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0));
  EXPECT_THAT(diagnosis.blockers[1].waiting, IsEmpty());
  EXPECT_THAT(diagnosis.blockers[2].waiting, IsEmpty());
}

TEST(StallDiagnosisTest, LostAndSilentWorkersAreToldApart) {
  ClusterStatus status = Idle();
  Execute(status.workers[0], WorkerActivity::Kind::kCollective, 18);
  status.workers[1].reported = false;
  status.workers[3].state = WorkerState::kLost;
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 2u);
  EXPECT_EQ(diagnosis.blockers[0].kind, Blocker::Kind::kLost);
  EXPECT_EQ(diagnosis.blockers[0].rank, 3);
  EXPECT_EQ(diagnosis.blockers[1].kind, Blocker::Kind::kSilent);
  EXPECT_EQ(diagnosis.blockers[1].rank, 1);
  EXPECT_THAT(diagnosis.blockers[1].waiting, ElementsAre(0));
  EXPECT_EQ(diagnosis.summary, "rank 3 is lost");
}

// It holds up new sessions as well, though no rank waits for it in a collective.
TEST(StallDiagnosisTest, WorkOfASessionThatHasEndedComesFirst) {
  ClusterStatus status = Idle();
  status.replacement_hint = "run `lockstep up`";
  Execute(status.workers[0], WorkerActivity::Kind::kCollective, 18);
  Execute(status.workers[2], WorkerActivity::Kind::kCommand, 17);
  status.workers[2].activity.session = SessionId(2);
  status.workers[2].activity.what = "spin";
  status.workers[2].host = "box";
  status.workers[2].pid = 102;
  status.workers[3].state = WorkerState::kLost;
  SessionStatus ended;
  ended.session = SessionId(2);
  ended.closing = true;
  status.sessions = {ended};
  EXPECT_EQ(DiagnoseStall(status).blockers[0].rank, 3) << "it may finish its work";
  status.sessions[0].aborted = std::chrono::milliseconds(200);
  EXPECT_EQ(DiagnoseStall(status).blockers[0].rank, 3) << "it may be giving up";
  status.sessions[0].aborted = std::chrono::seconds(2);
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_EQ(diagnosis.blockers[0].kind, Blocker::Kind::kEnded);
  EXPECT_EQ(diagnosis.summary,
            "rank 2 still executes spin of session 2, which has ended; it does not give up");
  EXPECT_EQ(AdviceFor(status, Blocker::Kind::kEnded, {2}),
            "`kill -9 102` on box ends it; then run `lockstep up`");
  EXPECT_EQ(AdviceFor(status, Blocker::Kind::kLost, {3}), "run `lockstep up`");
  EXPECT_EQ(AdviceFor(status, Blocker::Kind::kBusy, {3}), "");
  status.workers[3].may_live = true;
  status.workers[3].host = "box";
  status.workers[3].pid = 103;
  status.workers[1].state = WorkerState::kLost;
  EXPECT_EQ(AdviceFor(status, Blocker::Kind::kLost, {1, 3}),
            "rank 3: `kill -9 103` on box ends it if it is still there; then run `lockstep up`")
      << "`up` leaves a process that is stopped as it is";
}

// A plan is one command, in which ranks call functions and meet.
TEST(StallDiagnosisTest, InsideAPlanRanksWaitForTheOneThatCallsAFunction) {
  ClusterStatus status = Idle();
  for (WorkerStatus& worker : status.workers) {
    Execute(worker, WorkerActivity::Kind::kCollective, 18);
  }
  Execute(status.workers[2], WorkerActivity::Kind::kCommand, 18);
  status.workers[2].activity.what = "layer";
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0, 1, 3));
  EXPECT_EQ(diagnosis.summary, "no rank is stuck: the others wait for rank 2, busy in layer");
}

TEST(StallDiagnosisTest, RanksMayWorkTogether) {
  ClusterStatus status = Idle();
  for (WorkerStatus& worker : status.workers)
    Execute(worker, WorkerActivity::Kind::kCollective, 18);
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  EXPECT_THAT(diagnosis.blockers, IsEmpty());
  EXPECT_EQ(diagnosis.summary, "no rank is stuck: ranks 0-3 are in a collective, and none is late");
}

// It said that none is late.
TEST(StallDiagnosisTest, RanksThatWaitForTheOtherHalfOfAMessageAreNotTakenForBusy) {
  ClusterStatus status = Idle();
  for (Rank rank : {0, 1}) {
    WorkerStatus& worker = status.workers[static_cast<size_t>(rank)];
    Execute(worker, WorkerActivity::Kind::kCollective, 18);
    worker.activity.what = "send to next group";
  }
  EXPECT_EQ(DiagnoseStall(status).summary,
            "ranks 0, 1 wait in send to next group, and no rank is in its other half: the program "
            "has not issued receive from previous group yet");
  status.workers[1].activity.since = std::chrono::milliseconds(1);
  EXPECT_EQ(DiagnoseStall(status).summary,
            "no rank is stuck: ranks 0, 1 are in a collective, and none is late");
  // All connect with each other before the first message.
  for (WorkerStatus& worker : status.workers) worker.activity = status.workers[0].activity;
  EXPECT_EQ(DiagnoseStall(status).summary,
            "no rank is stuck: ranks 0-3 are in a collective, and none is late");
}

// Its connection is gone, or it is held up outside of any command.
TEST(StallDiagnosisTest, WhoeverHasTakenFewerBatchesIsBehindEvenIfItDoesNothing) {
  ClusterStatus status = Idle();
  for (Rank rank : {0, 1, 2})
    Execute(status.workers[static_cast<size_t>(rank)], WorkerActivity::Kind::kCollective, 18);
  status.workers[3].activity.received = 5;
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].rank, 3);
  EXPECT_EQ(diagnosis.blockers[0].kind, Blocker::Kind::kBehind);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0, 1, 2));
  EXPECT_EQ(diagnosis.summary, "rank 3 is behind");
}

TEST(StallDiagnosisTest, WhoeverIsInAnEarlierCollectiveIsBehind) {
  ClusterStatus status = Idle();
  // Two have got further: only a plan has a collective and a function in one command.
  for (Rank rank : {0, 1})
    Execute(status.workers[static_cast<size_t>(rank)], WorkerActivity::Kind::kCommand, 19);
  Execute(status.workers[2], WorkerActivity::Kind::kCollective, 12);
  Execute(status.workers[3], WorkerActivity::Kind::kCollective, 18);
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_EQ(diagnosis.blockers[0].kind, Blocker::Kind::kBehind);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(3));
}

// A moment's difference is none: they answer one after the other.
TEST(StallDiagnosisTest, CollectivesThatHaveJustBegunHaveNoBlocker) {
  ClusterStatus status = Idle();
  for (Rank rank : {0, 1, 2}) {
    Execute(status.workers[static_cast<size_t>(rank)], WorkerActivity::Kind::kCollective, 18);
    status.workers[static_cast<size_t>(rank)].activity.since = std::chrono::milliseconds(1);
  }
  status.workers[3].activity.received = 8;
  EXPECT_THAT(DiagnoseStall(status).blockers, IsEmpty());
}

// Groups {0, 1} and {2, 3}: each waits for its own.
TEST(StallDiagnosisTest, OnlyMembersOfACollectiveAreWaitedFor) {
  ClusterStatus status = Idle();
  for (Rank rank : {0, 2}) {
    WorkerStatus& worker = status.workers[static_cast<size_t>(rank)];
    Execute(worker, WorkerActivity::Kind::kCollective, 18);
    worker.activity.first_rank = rank;
    worker.activity.last_rank = rank + 1;
  }
  for (Rank rank : {1, 3})
    Execute(status.workers[static_cast<size_t>(rank)], WorkerActivity::Kind::kCommand, 17);
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  ASSERT_EQ(diagnosis.blockers.size(), 2u);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0));
  EXPECT_THAT(diagnosis.blockers[1].waiting, ElementsAre(2));
}

TEST(StallDiagnosisTest, ClustersThatAreNotCompleteSaySo) {
  ClusterStatus status = Idle();
  status.workers[1].state = WorkerState::kJoining;
  EXPECT_EQ(DiagnoseStall(status).summary, "the cluster is not complete");
}

}  // namespace
}  // namespace lockstep
