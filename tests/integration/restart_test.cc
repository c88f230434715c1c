// Controllers that are killed and started again: the workers keep their registers, the sessions
// their names, and what is lost is told.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/recovery_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RestartTest : public RecoveryFixture {
 protected:
  void SetUp() override {
    RecoveryFixture::SetUp();
    first_.push_back(StartControllerProcess());
    StartWorkers();
  }

  ChildProcess StartControllerProcess() {
    return StartProcess(
        "controller",
        {"workers=" + std::to_string(kWorkers), "client_endpoint=" + IpcEndpoint("clients"),
         "worker_endpoint=" + IpcEndpoint("workers"),
         "liveness_endpoint=" + IpcEndpoint("liveness"), "heartbeat_interval=50ms",
         "worker_timeout=3s", "session_lease=2s"});
  }
  void KillController() {
    first_.back().Signal(SIGKILL);
    ASSERT_TRUE(first_.back().Wait(Deadline::After(kLong)).ok());
  }
  // The one that is started again belongs to this process, which stops it in the end.
  void Restart() {
    controller::ControllerOptions options = Options();
    options.session_lease = 2s;
    StartController(options);
  }
  // Attaches as soon as that is allowed: its last client may come back first.
  Session AttachInTime(const std::string& ticket) {
    const Deadline deadline = Deadline::After(kLong);
    while (true) {
      auto session = Session::Attach(Kept(), ticket, context_);
      if (session.status().code() != StatusCode::kFailedPrecondition || deadline.Expired()) {
        return Unwrapped(std::move(session));
      }
      std::this_thread::sleep_for(20ms);
    }
  }
  void KillAndRestart() {
    KillController();
    Restart();
  }

  std::vector<ChildProcess> first_;  // the controller that is killed
};

TEST_F(RestartTest, RegistersAndNamesSurvive) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  const DRef sum = Unwrap(session.AllReduce(ranks, Reduction::kSum));
  const std::vector<float> data = {1, 2, 3, 4};
  const DRef copied = Unwrap(session.CopyToWorker0({4}, {data.data(), 4, DType::kFloat32}));
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const std::vector<WorkerInfo> workers = session.workers();

  KillAndRestart();
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  const lockstep::Status told = session.SyncAll();
  EXPECT_EQ(told.code(), StatusCode::kUnavailable) << "nothing was under way: " << told;
  EXPECT_THAT(Message(told), HasSubstr("the controller was restarted"));
  ASSERT_EQ(session.Reset(), OkStatus());

  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(session.workers()[static_cast<size_t>(rank)].pid,
              workers[static_cast<size_t>(rank)].pid);
    EXPECT_THAT(Elements(session, ranks, rank), Each(static_cast<float>(rank)));
    EXPECT_THAT(Elements(session, sum, rank), Each(3.0f));
  }
  EXPECT_THAT(Lost(session, ranks), IsEmpty());
  std::vector<float> back(4);
  ASSERT_EQ(session.CopyFromWorker0({back.data(), 4, DType::kFloat32}, copied), OkStatus());
  EXPECT_EQ(back, data);
  ExpectConnected(session);
}

TEST_F(RestartTest, ProgramsTravelAgainAfterwards) {
  Session& session = Open();
  BindTwice(session);
  KillAndRestart();
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  ASSERT_EQ(session.Reset(), OkStatus());
  BindTwice(session);
}

TEST_F(RestartTest, WhoeverWaitsIsToldAndGoesOn) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  (void)Call(session, "lockstep.sleep", {client::Argument(3600.0), client::Argument(2)});
  (void)Unwrap(session.AllReduce(ranks, Reduction::kSum));
  std::thread restart([&] {
    std::this_thread::sleep_for(100ms);
    KillAndRestart();
  });
  EXPECT_EQ(session.SyncAll().code(), StatusCode::kUnavailable);
  restart.join();
  Recover(session);
  EXPECT_THAT(Elements(session, ranks, 1), Each(1.0f));
  ExpectConnected(session);
}

// They were in the controller's hands when it died.
TEST_F(RestartTest, CommandsThatReachedNobodyAreNamed) {
  Session& session = Open();
  const DRef before = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Suspend(first_.back().pid());
  const DRef lost = FullOfRank(session);
  ASSERT_EQ(session.Flush(), OkStatus());
  KillAndRestart();
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  const lockstep::Status told = session.SyncAll();
  EXPECT_EQ(told.code(), StatusCode::kDataLoss) << told;
  EXPECT_THAT(Message(told), HasSubstr("were executed by no worker"));
  ASSERT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, before, 2), Each(2.0f));
  EXPECT_THAT(Message(session.DebugGet(lost, 2).status()), HasSubstr("never written"));
  ASSERT_EQ(session.Reset(), OkStatus());
  ExpectConnected(session);
}

// One rank has executed what another has not come to.
TEST_F(RestartTest, RanksThatDifferAreNamed) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  (void)Call(session, "lockstep.sleep", {client::Argument(3600.0), client::Argument(1)});
  const DRef made = FullOfRank(session);
  ASSERT_EQ(session.Sync(0), OkStatus());
  ASSERT_EQ(session.Sync(2), OkStatus());
  KillAndRestart();
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  const lockstep::Status told = session.SyncAll();
  EXPECT_EQ(told.code(), StatusCode::kDataLoss) << told;
  EXPECT_THAT(Message(told), AllOf(HasSubstr("have reached ranks 0, 2, but not"),
                                   HasSubstr("rank 1"), HasSubstr("may differ")));
  ASSERT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, made, 0), Each(0.0f));
  EXPECT_THAT(Message(session.DebugGet(made, 1).status()), HasSubstr("never written"));
  ASSERT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, ranks, 1), Each(1.0f));
  ExpectConnected(session);
}

TEST_F(RestartTest, WorkerThatDiedWithTheControllerIsReplaced) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  KillController();
  Kill(1);
  Replace(1);
  Restart();
  Recover(session);
  EXPECT_THAT(Lost(session, ranks), ElementsAre(1));
  EXPECT_THAT(Elements(session, ranks, 0), Each(0.0f));
  EXPECT_THAT(Message(session.DebugGet(ranks, 1).status()), HasSubstr("another worker since"));
  ASSERT_EQ(session.Reset(), OkStatus());
  ExpectConnected(session);
}

// It holds the same session as it was before others had its rank.
TEST_F(RestartTest, WorkerThatComesBackFromLongAgoHasNothingThatCounts) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  KillController();
  ChildProcess frozen = std::move(processes_[1]);
  Suspend(frozen.pid());
  Replace(1);
  first_.push_back(StartControllerProcess());
  Recover(session);
  EXPECT_THAT(Lost(session, ranks), ElementsAre(1));
  const DRef zeros = Unwrap(session.Broadcast(ranks, 0));
  ASSERT_EQ(session.SyncAll(), OkStatus());

  KillController();
  Kill(1);
  processes_[1] = std::move(frozen);
  processes_[1].Signal(SIGCONT);
  Restart();
  Recover(session);
  EXPECT_EQ(session.workers()[1].pid, processes_[1].pid());
  EXPECT_THAT(Lost(session, zeros), ElementsAre(1));
  EXPECT_THAT(Message(session.DebugGet(ranks, 1).status()), HasSubstr("another worker since"));
  ASSERT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, zeros, 2), Each(0.0f));
  ExpectConnected(session);
}

TEST_F(RestartTest, ControllerMayBeRestartedAgainAndAgain) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  for (int i = 0; i < 3; ++i) {
    KillController();
    first_.push_back(StartControllerProcess());
    if (i == 1) continue;  // a peer may have noticed that one, or not
    Recover(session);
    EXPECT_THAT(Elements(session, ranks, 2), Each(2.0f));
    ExpectConnected(session);
  }
  KillAndRestart();
  Recover(session);
  EXPECT_THAT(Elements(session, ranks, 0), Each(0.0f));
}

TEST_F(RestartTest, SessionsDoNotMeet) {
  Session& one = Open();
  Session& two = Open();
  const DRef of_one = Unwrap(one.Broadcast(FullOfRank(one), 1));
  const DRef of_two = Unwrap(two.Broadcast(FullOfRank(two), 2));
  ASSERT_EQ(one.SyncAll(), OkStatus());
  ASSERT_EQ(two.SyncAll(), OkStatus());
  KillAndRestart();
  Session& three = Open();
  EXPECT_GT(three.id(), two.id());
  ExpectConnected(three);
  Recover(two);
  Recover(one);
  EXPECT_THAT(Elements(one, of_one, 0), Each(1.0f));
  EXPECT_THAT(Elements(two, of_two, 0), Each(2.0f));
  ExpectConnected(one);
}

// The workers know the names, too: another client finds them although no client is left.
TEST_F(RestartTest, SessionThatWasLeftIsAttachedToAfterwards) {
  std::string ticket;
  {
    Session session = Unwrapped(Session::Connect(Kept(), context_));
    ticket = session.ticket();
    EXPECT_EQ(session.Name(FullOfRank(session), "ranks"), OkStatus());
    EXPECT_EQ(session.Detach(), OkStatus());
  }
  KillAndRestart();
  Session session = AttachInTime(ticket);
  EXPECT_THAT(Message(session.SyncAll()), HasSubstr("the controller was restarted"));
  ASSERT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, Unwrap(session.Find("ranks")), 2), Each(2.0f));
  ExpectConnected(session);
}

// Another client with the ticket might be faster, and both would write to the same tensors.
TEST_F(RestartTest, NobodyTakesASessionBeforeItsClientCouldComeBack) {
  Session session = Unwrapped(Session::Connect(Kept(), context_));
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  KillAndRestart();
  const Status refused = Session::Attach(Kept(), session.ticket(), context_).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  Recover(session);
  EXPECT_THAT(Elements(session, ranks, 2), Each(2.0f));
  ExpectConnected(session);
}

TEST_F(RestartTest, WhoAttachesAfterwardsIsToldOfReplacementsBefore) {
  Session session = Unwrapped(Session::Connect(Kept(), context_));
  ASSERT_EQ(session.Name(FullOfRank(session), "before"), OkStatus());
  Kill(2);
  EXPECT_FALSE(session.SyncAll().ok());
  Replace(2);
  Recover(session);
  ASSERT_EQ(session.Name(FullOfRank(session), "after"), OkStatus());
  const std::string ticket = session.ticket();
  ASSERT_EQ(session.Detach(), OkStatus());
  KillAndRestart();
  Session second = AttachInTime(ticket);
  ASSERT_EQ(second.Reset(), OkStatus());
  EXPECT_THAT(Lost(second, Unwrap(second.Find("before"))), ElementsAre(2));
  EXPECT_THAT(Lost(second, Unwrap(second.Find("after"))), IsEmpty());
  EXPECT_THAT(Elements(second, Unwrap(second.Find("after")), 2), Each(2.0f));
}

TEST_F(RestartTest, NothingIsFoundIfNoWorkerComesBack) {
  Session& session = Open();
  ASSERT_EQ(session.SyncAll(), OkStatus());
  KillController();
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    Kill(rank);
    Replace(rank);
  }
  Restart();
  const lockstep::Status told = session.AwaitWorkers(kLong);
  EXPECT_EQ(told.code(), StatusCode::kDataLoss) << told;
  EXPECT_THAT(Message(told), HasSubstr("open a new session"));
  EXPECT_EQ(session.Reset().code(), StatusCode::kDataLoss);
  ExpectConnected(Open());
}

// Its client never comes back: what it held is freed when its lease is over.
TEST_F(RestartTest, SessionOfAVanishedClientIsFreed) {
  {
    Session& session = Open();
    (void)FullOfRank(session);
    ASSERT_EQ(session.SyncAll(), OkStatus());
    KillController();
    EXPECT_FALSE(session.SyncAll().ok());
    sessions_.clear();
  }
  controller::ControllerOptions options = Options();
  options.session_lease = 500ms;
  StartController(options);
  const Deadline deadline = Deadline::After(kLong);
  size_t sessions = 1;
  bool ready = false;
  while ((!ready || sessions > 0) && !deadline.Expired()) {
    const auto status = GetClusterStatus(IpcEndpoint("clients"), kLong);
    ASSERT_TRUE(status.ok()) << status.status();
    sessions = status->sessions.size();
    ready = true;
    for (const WorkerStatus& worker : status->workers) {
      ready = ready && worker.state == WorkerState::kReady;
    }
  }
  EXPECT_EQ(sessions, 0u);
  ExpectConnected(Open());
}

class ImpatientWorkersTest : public RestartTest {
 protected:
  void SetUp() override {
    worker_settings_ = {"controller_timeout=400ms"};
    RestartTest::SetUp();
  }
};

// They have given it up, and dropped what it had sent them, but it is the same when it wakes up.
TEST_F(ImpatientWorkersTest, ControllerThatWasStoppedForTooLongTakesItsWorkersBack) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Suspend(first_.back().pid());
  std::this_thread::sleep_for(1500ms);
  first_.back().Signal(SIGCONT);
  const Deadline deadline = Deadline::After(kLong);
  while (session.SyncAll().ok() && !deadline.Expired()) support::LetOthersWork();
  Recover(session);
  EXPECT_THAT(Lost(session, ranks), ElementsAre(0, 1, 2));
  EXPECT_THAT(Message(session.DebugGet(ranks, 0).status()), HasSubstr("another worker since"));
  ASSERT_EQ(session.Reset(), OkStatus());
  ExpectConnected(session);
  EXPECT_EQ(session.Close(), OkStatus());
  first_.back().Signal(SIGTERM);  // it sends its workers away
}

class ShortGraceTest : public RestartTest {
 protected:
  void SetUp() override {
    worker_settings_ = {"controller_timeout=300ms", "controller_grace=500ms"};
    RestartTest::SetUp();
  }
};

TEST_F(ShortGraceTest, WorkersThatFindNoControllerEnd) {
  ASSERT_EQ(Open().SyncAll(), OkStatus());
  KillController();
  for (ChildProcess& process : processes_) {
    EXPECT_TRUE(process.Wait(Deadline::After(kLong)).ok());
  }
}

}  // namespace
}  // namespace lockstep::testing
