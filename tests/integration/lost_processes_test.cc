// Processes that are killed, stopped, or vanish.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/host_identity.h"
#include "runtime/client/admin.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A lost worker is reported within this (and within more where sanitizers slow everything down).
constexpr auto kReported = 2s;

// Every test breaks its own cluster.
class LostProcessesTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.heartbeat_interval = 50ms;
    return options;
  }

  ClusterStatus Status() { return Unwrap(GetClusterStatus(cluster_->address(), support::kLong)); }

  // Rank 2 sleeps while the others wait for it in an allreduce.
  void StartAllReduceWithoutRankTwo() {
    const DRef tensor = FullOfRank({1 << 16});
    (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));
    EXPECT_OK(session_->SyncAll());
    (void)Unwrap(session_->Call(Function("lockstep.sleep"), 3600.0, 2));
    (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));
    EXPECT_OK(session_->Flush());
    StatusOnce(*cluster_, [](const ClusterStatus& status) {
      for (const WorkerStatus& worker : status.workers) {
        if (worker.activity.launched == worker.activity.completed) return false;
      }
      return true;
    });
  }

  void Kill(Rank rank, int signal = SIGKILL) {
    ASSERT_EQ(kill(cluster_->worker_pids()[static_cast<size_t>(rank)], signal), 0);
  }
  static bool IsRunning(pid_t pid) { return kill(pid, 0) == 0; }
};
INSTANTIATE_TEST_SUITE_P(Clusters, LostProcessesTest, ::testing::ValuesIn(kProcessKinds), NameOf);

TEST_P(LostProcessesTest, WorkerKilledInTheMiddleOfAnAllReduceIsNamedSoon) {
  StartAllReduceWithoutRankTwo();
  const auto begin = Deadline::Clock::now();
  Kill(2);
  const lockstep::Status status = session_->SyncAll();
  EXPECT_LT(Deadline::Clock::now() - begin, kReported);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("rank 2"), HasSubstr("killed by signal 9"),
                    HasSubstr("for lack of memory"), HasSubstr("`lockstep logs --rank 2")));

  // The controller and the other workers live on, and say what is wrong.
  StatusOnce(*cluster_,
             [](const ClusterStatus& now) { return now.workers[2].state == WorkerState::kLost; });
  const ClusterStatus now = Status();
  EXPECT_FALSE(now.IsReady());
  for (Rank rank : {0, 1, 3}) {
    EXPECT_EQ(now.workers[static_cast<size_t>(rank)].state, WorkerState::kReady) << rank;
    EXPECT_TRUE(IsRunning(cluster_->worker_pids()[static_cast<size_t>(rank)])) << rank;
  }
  StatusOnce(*cluster_, [](const ClusterStatus& later) {
    // The survivors are out of the collective.
    return later.workers[0].activity.launched == later.workers[0].activity.completed &&
           later.workers[1].activity.launched == later.workers[1].activity.completed &&
           later.workers[3].activity.launched == later.workers[3].activity.completed;
  });
}

TEST_P(LostProcessesTest, EverySessionAndEveryNewcomerLearnsOfALoss) {
  Session other = Open(*cluster_);
  Kill(1);
  StatusOnce(*cluster_,
             [](const ClusterStatus& now) { return now.workers[1].state == WorkerState::kLost; });
  for (Session* session : {session_.get(), &other}) {
    EXPECT_THAT(Message(session->SyncAll()), HasSubstr("rank 1"));
    EXPECT_THAT(Message(session->Reset()), HasSubstr("rank 1")) << "the world is not whole";
  }
  // A newcomer waits for another worker to take the rank, but not for ever.
  SessionOptions newcomer = Options();
  newcomer.connect_timeout = 300ms;
  const lockstep::Status refused = cluster_->Connect(newcomer).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(refused), HasSubstr("rank 1"));
}

// The close is on its way when the worker dies, or soon after.
TEST_P(LostProcessesTest, ClosingDoesNotWaitForTheDead) {
  const auto begin = Deadline::Clock::now();
  Kill(3);
  (void)session_->Close();
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
}

TEST_P(LostProcessesTest, ClientWithAFullWindowDoesNotWaitForTheDead) {
  const DRef nop = Function("lockstep.nop");
  const DRef sleep = Function("lockstep.sleep");
  EXPECT_OK(session_->SyncAll());
  (void)Unwrap(session_->Call(sleep, 3600.0, 2));
  EXPECT_OK(session_->Flush());
  std::thread killer([&] {
    StatusOnce(*cluster_, [](const ClusterStatus& now) {
      return now.workers[2].activity.launched > now.workers[2].activity.completed &&
             now.sessions.front().sent_bytes > (4 << 20);
    });
    Kill(2);
  });
  const Bytes large{std::string(1 << 20, 'x')};
  lockstep::Status status;
  const auto begin = Deadline::Clock::now();
  for (int i = 0; i < 1000 && status.ok(); ++i) status = session_->Call(nop, large).status();
  killer.join();
  EXPECT_THAT(Message(status), HasSubstr("rank 2"));
  (void)session_->Reset();
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
}

// Long before its lease is over: its process is seen to have ended.
TEST_P(LostProcessesTest, WorkOfAKilledClientHoldsNoOtherUp) {
  const pid_t process = fork();
  while (process == 0) pause();
  WireClient client(cluster_->address());
  client.Send([&](wire::ClientMessage::Builder message) {
    auto open = message.initOpenSession();
    open.setMinVersion(kOldestProtocolVersion);
    open.setMaxVersion(kProtocolVersion);
    open.setTimeoutMillis(20'000);
    open.initHost().setId(ThisHost().id);
    open.setPid(process);
  });
  SessionId id;
  ASSERT_TRUE(client.WaitFor([&](wire::ControllerMessage::Reader reader) {
    if (!reader.isSessionOpened()) return false;
    id = SessionId(reader.getSessionOpened().getSession());
    return true;
  }));
  client.SendBatch(id, StuckBody(), 1, 0, -1, kStuckCommands);
  StatusOnce(*cluster_, [](const ClusterStatus& now) {
    return now.workers[0].activity.launched > now.workers[0].activity.completed;
  });
  const auto begin = Deadline::Clock::now();
  ASSERT_EQ(kill(process, SIGKILL), 0);
  EXPECT_OK(session_->SyncAll());
  EXPECT_LT(Deadline::Clock::now() - begin, 5s) << "its lease is 10 s";
  EXPECT_EQ(waitpid(process, nullptr, 0), process);
}

TEST_P(LostProcessesTest, MemoryOfAKilledWorkerIsRemoved) {
  // Its own page of activity, and all ranks' arenas.
  EXPECT_EQ(SegmentsOf(cluster_->worker_pids()[0]).size(), size_t{1 + kWorkers});
  Kill(2);
  EXPECT_FALSE(session_->SyncAll().ok());
  EXPECT_EQ(SegmentsOf(cluster_->worker_pids()[0]).size(), size_t{1 + kWorkers - 1});
}

// Time-outs short enough to wait for them.
class SilenceTest : public LostProcessesTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options = LostProcessesTest::OwnOptions();
    options.workers = 2;
    options.controller.worker_timeout = 1500ms;
    options.controller.session_lease = 1500ms;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, SilenceTest, ::testing::Values(ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(SilenceTest, StoppedWorkerIsLost) {
  Suspend(cluster_->worker_pids()[1]);
  const lockstep::Status status = session_->SyncAll();
  Kill(1, SIGCONT);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("rank 1"), HasSubstr("no heartbeat"), HasSubstr("is stopped")));
}

TEST_P(SilenceTest, WorkerThatWasGivenUpEndsWhenItLivesAgain) {
  const pid_t worker = cluster_->worker_pids()[1];
  Suspend(worker);
  EXPECT_FALSE(session_->SyncAll().ok());
  Kill(1, SIGCONT);
  // By itself it would wait for twice as long before it takes the controller's silence for its end.
  EXPECT_TRUE(AllGone({worker}, Deadline::After(5s)));
}

TEST_P(SilenceTest, ClientOfAStoppedControllerGetsAnErrorWithinItsLease) {
  const auto begin = Deadline::Clock::now();
  Suspend(cluster_->controller_pid());
  const lockstep::Status status = session_->SyncAll();
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("silent"));
  EXPECT_EQ(session_->Flush().code(), StatusCode::kUnavailable);
  session_.reset();  // closing does not wait for it either
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
  ASSERT_EQ(kill(cluster_->controller_pid(), SIGCONT), 0);
}

// What it has not read meanwhile is no silence: neither of the workers nor of the clients.
TEST_P(SilenceTest, ControllerThatWasStoppedBlamesNobody) {
  const DRef kept = Call("lockstep.identity", "kept");
  EXPECT_OK(session_->SyncAll());
  const auto frozen = OwnOptions().controller.worker_timeout + 1000ms;
  Suspend(cluster_->controller_pid());
  std::this_thread::sleep_for(frozen);
  ASSERT_EQ(kill(cluster_->controller_pid(), SIGCONT), 0);
  EXPECT_OK(session_->AwaitWorkers(support::kLong));
  EXPECT_EQ(Get(kept, 1), Value("kept"));
  for (const WorkerStatus& worker : Status().workers) {
    EXPECT_EQ(worker.state, WorkerState::kReady) << worker.reason;
  }
}

TEST_P(SilenceTest, IdleSessionKeepsItsLease) {
  const DRef kept = Call("lockstep.identity", "kept");
  EXPECT_OK(session_->SyncAll());
  const auto begin = Deadline::Clock::now();
  // Another session's time passes; this session says nothing by itself.
  WireClient other(cluster_->address());
  ASSERT_EQ(other.Open(), OkStatus());
  StatusOnce(*cluster_, [](const ClusterStatus& now) { return now.sessions.size() == 1; });
  EXPECT_GE(Deadline::Clock::now() - begin, 1500ms);
  EXPECT_EQ(Get(kept, 1), Value("kept"));
}

// A session lease and little memory: what a silent client held is missed.
class VanishedClientTest : public SilenceTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options = SilenceTest::OwnOptions();
    options.controller.session_lease = 500ms;
    options.worker.arena_bytes = size_t{64} << 20;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, VanishedClientTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(VanishedClientTest, RegistersOfASilentClientAreFreedWithinTheLease) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  control::BatchWriter writer;
  (void)writer.Add([](wire::Command::Builder command) {
    auto empty = command.initEmpty();
    empty.initShape(1).set(0, 40 << 20);
    empty.setDtype(wire::DType::UINT8);
    empty.setResult(RegisterId{0, 1}.Packed());
  });
  (void)writer.Add([](wire::Command::Builder command) { command.setSync(); });
  client.SendBatch(client.session(), writer.Take(), 1, 1);
  ASSERT_EQ(client.NextVerdict(), OkStatus());
  StatusOnce(*cluster_, [](const ClusterStatus& now) { return now.sessions.size() == 1; });
  const DRef as_large = Unwrap(session_->Empty({40 << 20}, DType::kUInt8));
  EXPECT_OK(session_->SyncAll());
}

TEST_P(VanishedClientTest, SilentClientCannotHoldTheOthersInACollective) {
  WireClient client(cluster_->address());
  ASSERT_EQ(client.Open(), OkStatus());
  const auto begin = Deadline::Clock::now();
  client.SendBatch(client.session(), StuckBody(), 1, 0, -1, kStuckCommands);
  EXPECT_OK(session_->SyncAll());
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
}

TEST_P(VanishedClientTest, ShutdownTellsSessionsWhy) {
  (void)Unwrap(session_->Call(Function("lockstep.sleep"), 3600.0));
  std::thread stopper([&] {
    StatusOnce(*cluster_, [](const ClusterStatus& now) {
      return now.workers[0].activity.launched > now.workers[0].activity.completed;
    });
    EXPECT_OK(ShutdownCluster(cluster_->address(), "time for maintenance", support::kLong));
  });
  const lockstep::Status status = session_->SyncAll();
  stopper.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("time for maintenance"));
  EXPECT_THAT(Message(session_->Flush()), HasSubstr("time for maintenance"));
  EXPECT_OK(cluster_->Stop());
}

}  // namespace
}  // namespace lockstep::testing
