// Workers that live but do not go on: found, named, and told from lost ones.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/failure.h"
#include "runtime/client/stall_diagnosis.h"
#include "tests/integration/session_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kForEver = 3600;  // seconds; lockstep.sleep ends when its session fails

class StuckTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.heartbeat_interval = 50ms;
    options.controller.stuck_after = 200ms;
    return options;
  }

  void TearDown() override {
    EXPECT_OK(session_->Reset());  // closing would wait for what still sleeps
    SessionFixture::TearDown();
  }

  // Rank 2 sleeps; the others wait for it in an allreduce.
  static void HoldUp(Session& session) {
    const DRef tensor = Unwrap(session.Empty({16}, DType::kFloat32));
    (void)Unwrap(session.Call(Function(session, "lockstep.sleep"), kForEver, 2));
    (void)Unwrap(session.AllReduce(tensor, Reduction::kSum));
    EXPECT_OK(session.Flush());
  }
  // The controller waits a second for reports, in which a loaded machine may read no symbols.
  ClusterStatus ExplainedByAll() {
    const Deadline deadline = Deadline::After(support::kLong);
    while (true) {
      ClusterStatus status = Unwrap(ExplainCluster(cluster_->address(), support::kLong));
      const bool by_all = std::all_of(status.workers.begin(), status.workers.end(),
                                      [](const WorkerStatus& worker) { return worker.reported; });
      if (by_all || deadline.Expired()) return status;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, StuckTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(StuckTest, AStuckWorkerIsNamedAndNotLost) {
  HoldUp(*session_);
  const ClusterStatus status =
      StatusOnce(*cluster_, [](const ClusterStatus& now) { return now.workers[2].stuck; });
  EXPECT_EQ(status.workers[2].state, WorkerState::kReady);
  EXPECT_EQ(status.workers[2].activity.what, "lockstep.sleep");
  EXPECT_EQ(status.workers[2].activity.session, session_->id());
  EXPECT_GE(status.workers[2].activity.since, 200ms);
  for (Rank rank : {0, 1, 3}) {
    const WorkerStatus& other = status.workers[static_cast<size_t>(rank)];
    EXPECT_FALSE(other.stuck) << rank;
  }
}

TEST_P(StuckTest, TheDiagnosisTellsWhoWaitsForWhomAndWhere) {
  HoldUp(*session_);
  StatusOnce(*cluster_, [](const ClusterStatus& now) {
    int waiting = 0;
    for (const WorkerStatus& worker : now.workers) {
      if (worker.activity.kind == WorkerActivity::Kind::kCollective) ++waiting;
    }
    return now.workers[2].stuck && waiting == 3;
  });
  const ClusterStatus status = ExplainedByAll();
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  EXPECT_EQ(diagnosis.summary, "rank 2 is stuck, or slow, in lockstep.sleep");
  ASSERT_EQ(diagnosis.blockers.size(), 1u);
  EXPECT_EQ(diagnosis.blockers[0].rank, 2);
  EXPECT_THAT(diagnosis.blockers[0].waiting, ElementsAre(0, 1, 3));
  EXPECT_THAT(status.workers[2].stack, Contains(HasSubstr("Sleep"))) << status.workers[2].no_stack;
  EXPECT_THAT(status.workers[0].stack, Contains(HasSubstr("ExecuteCollective")))
      << status.workers[0].no_stack;
  // Being asked has disturbed no worker.
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
}

TEST_P(StuckTest, CommandTimeoutFailsTheSessionAndNoOther) {
  SessionOptions options = Options();
  options.command_timeout = 300ms;
  Session impatient = Open(*cluster_, options);
  const DRef kept = Unwrap(impatient.Call(Function(impatient, "lockstep.identity"), "kept"));
  const auto begin = Deadline::Clock::now();
  HoldUp(impatient);
  const lockstep::Status status = impatient.SyncAll();
  EXPECT_GE(Deadline::Clock::now() - begin, 300ms);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  const auto failure = FailureOf(status);
  ASSERT_TRUE(failure.has_value()) << status;
  EXPECT_EQ(failure->rank, 2);
  EXPECT_EQ(failure->session, impatient.id());
  EXPECT_EQ(failure->function, "lockstep.sleep");
  EXPECT_GT(failure->command, 0u);
  EXPECT_THAT(failure->message, AllOf(HasSubstr("rank 2"), HasSubstr("300 ms")));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(impatient.Reset());
  EXPECT_OK(impatient.SyncAll());
  EXPECT_EQ(Unwrap(impatient.DebugGet(kept, 2)), Value("kept"));
}

TEST_P(StuckTest, WaitsThatEndTellWhatTheLateAreDoing) {
  SessionOptions options = Options();
  options.timeout = 700ms;
  Session impatient = Open(*cluster_, options);
  HoldUp(impatient);
  const lockstep::Status status = impatient.SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("lockstep.sleep"), HasSubstr("allreduce"),
                                     HasSubstr("lockstep why")));
  const auto failure = FailureOf(status);
  ASSERT_TRUE(failure.has_value()) << status;
  EXPECT_EQ(failure->rank, 2);
  EXPECT_EQ(failure->function, "lockstep.sleep");
  EXPECT_OK(impatient.Reset());
}

// A place in another session's program would not lead to the cause.
TEST_P(StuckTest, CommandsOfOtherSessionsAreNotTakenForOnesOwn) {
  HoldUp(*session_);
  // Two connections do not wait for each other.
  StatusOnce(*cluster_, [](const ClusterStatus& now) {
    return now.workers[2].activity.what == "lockstep.sleep";
  });
  SessionOptions options = Options();
  options.timeout = 500ms;
  Session other = Open(*cluster_, options);
  const lockstep::Status status = other.SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("lockstep.sleep"));
  const auto failure = FailureOf(status);
  EXPECT_TRUE(!failure.has_value() || (failure->command == 0 && failure->rank < 0)) << status;
  EXPECT_OK(session_->Reset());
  EXPECT_OK(other.SyncAll());
}

// The receive comes after what failed, and is skipped. The sender hears of that when its receiver
// is reset, and need not wait for its own deadline.
TEST_P(StuckTest, AMessageWhoseOtherHalfIsSkippedDoesNotHoldUpAReset) {
  const DRef tensor = Unwrap(session_->Empty({16}, DType::kFloat32));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->SendToNextGroup(tensor));
  (void)Unwrap(session_->Call(Function(*session_, "lockstep.fail"), "on rank 2", 2));
  const StatusOr<DRef> received = session_->ReceiveFromPreviousGroup();
  EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("on rank"));
  const auto began = Deadline::Clock::now();
  EXPECT_OK(session_->Reset());
  EXPECT_LT(Deadline::Clock::now() - began, 20s);
  EXPECT_OK(session_->SyncAll());
}

class HalfAMessageTest : public StuckTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options = StuckTest::OwnOptions();
    options.controller.collective_timeout = 600ms;
    return options;
  }
  // What a wait of a thread that may not be about to issue the other half comes to.
  void ExpectTheSendIsBlamed() {
    lockstep::Status status;
    std::thread([&] { status = session_->SyncAll(); }).join();
    // The sender's own deadline, or its receiver has given up another collective.
    EXPECT_THAT(status.code(), AnyOf(StatusCode::kDeadlineExceeded, StatusCode::kUnavailable));
    const auto failure = FailureOf(status);
    ASSERT_TRUE(failure.has_value()) << status;
    EXPECT_EQ(failure->function, "send to next group") << status;
    EXPECT_THAT(failure->message,
                HasSubstr(failure->rank == 0 ? "rank 0 sends to rank 2" : "rank 1 sends to rank 3"))
        << status;
    EXPECT_OK(session_->Reset());
    EXPECT_OK(session_->SyncAll());
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, HalfAMessageTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

// A later collective was blamed: its ranks wait for the one that sends.
TEST_P(HalfAMessageTest, WhatWaitsForTheSenderIsNotBlamedForIt) {
  const DRef tensor = FullOfRank({4});
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->SendToNextGroup(tensor));
  (void)Unwrap(session_->Broadcast(tensor, 3));
  ExpectTheSendIsBlamed();
  // Now rank 3 waits for longer than the senders, and is not told that they give up.
  for (Rank rank : {0, 1}) (void)Unwrap(session_->Call(Function("lockstep.sleep"), 0.4, rank));
  EXPECT_OK(session_->SendToNextGroup(tensor));
  EXPECT_OK(session_->Barrier({.team = {0, 3}}));
  ExpectTheSendIsBlamed();
}

class SlowLibraryTest : public StuckTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.heartbeat_interval = 50ms;
    options.controller.worker_timeout = 2s;
    options.worker.module_path = {ModuleDirectory()};
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, SlowLibraryTest, ::testing::Values(ClusterKind::kTcpProcesses),
                         NameOf);

// The dynamic linker's lock is held meanwhile, which naming a stack could wait for.
TEST_P(SlowLibraryTest, WorkersThatLoadALibraryAnswerAndAreNotLost) {
  (void)Unwrap(session_->LoadModule("slow_module.so"));
  EXPECT_OK(session_->Flush());
  StatusOnce(*cluster_, [](const ClusterStatus& now) { return now.workers[3].stuck; });
  const ClusterStatus status = Unwrap(ExplainCluster(cluster_->address(), support::kLong));
  for (const WorkerStatus& worker : status.workers) {
    EXPECT_TRUE(worker.reported) << worker.rank;
    EXPECT_EQ(worker.activity.what, "load module");
    EXPECT_FALSE(worker.stack.empty()) << worker.no_stack;
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(StuckTest, NegativeCommandTimeoutsAreRefused) {
  SessionOptions options = Options();
  options.command_timeout = -1ms;
  EXPECT_EQ(cluster_->Connect(options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::testing
