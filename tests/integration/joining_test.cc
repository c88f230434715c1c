// Workers that leave before their cluster is complete, and controllers that come again: what is
// gone does not hinder what comes.
#include <signal.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/version.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class JoiningTest : public ServicesFixture {
 protected:
  std::string Endpoint(const std::string& role) const { return IpcEndpoint(role); }
  static std::string Program(const std::string& role) {
    return *FindProgram("lockstep-" + role, "NOT_SET", "services/" + role);
  }
  void StartController(int workers) {
    controller::ControllerOptions options;
    options.workers = workers;
    options.client_endpoint = Endpoint("clients");
    options.worker_endpoint = Endpoint("workers");
    options.liveness_endpoint = Endpoint("liveness");
    options.worker_timeout = 5s;
    ServicesFixture::StartController(options);
  }
  worker::Worker& StartWorker(int rank) {
    worker::WorkerOptions options = SmallWorker(rank);
    options.controller_endpoint = Endpoint("workers");
    options.controller_timeout = kLong;
    options.controller_grace = 0s;
    return ServicesFixture::StartWorker(options);
  }
  ChildProcess StartProcess(const std::string& role, std::vector<std::string> settings) {
    ChildOptions options;
    options.argv = {Program(role)};
    for (const std::string& setting : settings) {
      options.argv.push_back("--set");
      options.argv.push_back(setting);
    }
    auto child = ChildProcess::Spawn(options);
    EXPECT_TRUE(child.ok()) << child.status();
    return std::move(*child);
  }
  ChildProcess StartWorkerProcess(int rank, const std::string& after_shutdown = "exit") {
    return StartProcess(
        "worker", {"controller_endpoint=" + Endpoint("workers"), "rank=" + std::to_string(rank),
                   "arena_bytes=64MiB", "after_shutdown=" + after_shutdown});
  }

  // It answers when this returns: clients on its host give one that starts a second, which a loaded
  // machine may not.
  ChildProcess StartControllerProcess() {
    ChildProcess controller = StartProcess(
        "controller", {"workers=2", "client_endpoint=" + Endpoint("clients"),
                       "worker_endpoint=" + Endpoint("workers"),
                       "liveness_endpoint=" + Endpoint("liveness"), "worker_timeout=30s"});
    const Deadline deadline = Deadline::After(kLong);
    while (!GetClusterStatus(Endpoint("clients"), kLong).ok() && !deadline.Expired()) {
      support::LetOthersWork();
    }
    return controller;
  }

  void WaitForRankZero(WorkerState state) { WaitForState(0, state); }
  // Asks for the cluster's status until `rank` is in `state`.
  void WaitForState(size_t rank, WorkerState state) {
    const Deadline deadline = Deadline::After(kLong);
    while (true) {
      const auto status = GetClusterStatus(Endpoint("clients"), kLong);
      ASSERT_TRUE(status.ok()) << status.status();
      if (status->workers[rank].state == state) return;
      ASSERT_FALSE(deadline.Expired());
      support::LetOthersWork();
    }
  }
  StatusOr<Session> Connect() { return ConnectTo(Endpoint("clients")); }
  void ExpectWorks() {
    auto session = Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(session->SyncAll(), OkStatus());
    EXPECT_EQ(session->Barrier(), OkStatus());
    EXPECT_EQ(session->SyncAll(), OkStatus());
  }
};

// The parameter is the rank that the workers ask for.
class EarlyDeathTest : public JoiningTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EarlyDeathTest, ::testing::Values(0, -1),
                         [](const auto& info) { return info.param < 0 ? "Any" : "Explicit"; });

TEST_P(EarlyDeathTest, RankOfAKilledWorkerIsFreeAgain) {
  StartController(2);
  ChildProcess victim = StartWorkerProcess(GetParam());
  WaitForRankZero(WorkerState::kJoining);
  victim.Signal(SIGKILL);
  ASSERT_TRUE(victim.Wait(Deadline::After(kLong)).ok());
  // At once, whether the controller has noticed yet or not.
  StartWorker(GetParam());
  StartWorker(1);
  ExpectWorks();
}

TEST_P(EarlyDeathTest, StatusShowsThatNobodyHasTheRank) {
  StartController(2);
  ChildProcess victim = StartWorkerProcess(GetParam());
  WaitForRankZero(WorkerState::kJoining);
  victim.Signal(SIGKILL);
  WaitForRankZero(WorkerState::kMissing);
}

// The last one to join finds that an earlier one has died: no worker is welcomed into a broken
// world.
TEST_P(EarlyDeathTest, ClusterWithADeadWorkerIsNotComplete) {
  StartController(2);
  ChildProcess victim = StartWorkerProcess(GetParam());
  WaitForRankZero(WorkerState::kJoining);
  victim.Signal(SIGKILL);
  ASSERT_TRUE(victim.Wait(Deadline::After(kLong)).ok());
  StartWorker(1);
  WaitForRankZero(WorkerState::kMissing);
  StartWorker(GetParam());
  ExpectWorks();
}

// A thread of this process: no process ends, so the worker has to say it.
TEST_P(EarlyDeathTest, WorkerThatLeavesSaysGoodbye) {
  StartController(2);
  StartWorker(GetParam());
  WaitForRankZero(WorkerState::kJoining);
  workers_.back()->RequestStop("it has better things to do");
  WaitForRankZero(WorkerState::kMissing);
  StartWorker(GetParam());
  StartWorker(1);
  ExpectWorks();
}

// Of another host, which lost its power: it neither says goodbye nor ends before our eyes. One that
// has waited for longer, but lives, keeps its rank.
TEST_P(EarlyDeathTest, RankOfASilentWorkerIsFreeAgain) {
  StartController(3);
  StartWorker(1);
  WaitForState(1, WorkerState::kJoining);
  auto silent = control::ZmqConnect(context_, Endpoint("workers"));
  ASSERT_TRUE(silent.ok()) << silent.status();
  ASSERT_TRUE((*silent)
                  ->Send({control::EncodeMessage<wire::WorkerMessage>(
                      [](wire::WorkerMessage::Builder message) {
                        auto hello = message.initHello();
                        hello.setMinVersion(kOldestProtocolVersion);
                        hello.setMaxVersion(kProtocolVersion);
                        hello.setRank(GetParam());
                        hello.initHost().setId("elsewhere");
                        hello.setPid(1);
                      })})
                  .ok());
  WaitForRankZero(WorkerState::kJoining);
  WaitForRankZero(WorkerState::kMissing);
  WaitForState(1, WorkerState::kJoining);
  StartWorker(GetParam());
  StartWorker(2);
  ExpectWorks();
}

TEST_F(JoiningTest, WorkerThatWaitsFindsARestartedController) {
  ChildProcess first = StartControllerProcess();
  StartWorker(0);
  WaitForRankZero(WorkerState::kJoining);
  first.Signal(SIGKILL);
  ASSERT_TRUE(first.Wait(Deadline::After(kLong)).ok());
  StartController(2);
  StartWorker(1);
  ExpectWorks();
}

TEST_F(JoiningTest, WorkersOfAKilledControllerEndAndHarmNobody) {
  ChildProcess first = StartControllerProcess();
  worker::Worker& old_zero = StartWorker(0);
  worker::Worker& old_one = StartWorker(1);
  ExpectWorks();
  first.Signal(SIGKILL);
  ASSERT_TRUE(first.Wait(Deadline::After(kLong)).ok());

  StartController(2);
  StartWorker(0);
  StartWorker(1);
  ExpectWorks();
  for (worker::Worker* old : {&old_zero, &old_one}) {
    const Status status = old->Wait(Deadline::After(kLong));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("restarted"), HasSubstr("start the worker again")));
  }
  // Aborts reach the new ones.
  auto session = Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Call(*session->GetFunction("lockstep.fail"), "on purpose", 0).ok());
  ASSERT_EQ(session->Barrier(), OkStatus());
  EXPECT_THAT(Message(session->SyncAll()), HasSubstr("on purpose"));
  EXPECT_EQ(session->Reset(), OkStatus());
  EXPECT_EQ(session->SyncAll(), OkStatus());
}

// As where an orchestrator starts a controller anew, and would be slow to start its workers again.
TEST_F(JoiningTest, WorkersThatWereSentAwayRejoinIfTheyAreToldTo) {
  std::vector<ChildProcess> workers;
  ChildProcess first = StartControllerProcess();
  for (const int rank : {0, 1}) workers.push_back(StartWorkerProcess(rank, "rejoin"));
  ExpectWorks();
  ASSERT_TRUE(first.Terminate(Deadline::After(kLong))->ok());
  // One that stops while they join.
  workers[1].Signal(SIGSTOP);
  ChildProcess second = StartControllerProcess();
  WaitForRankZero(WorkerState::kJoining);
  ASSERT_TRUE(second.Terminate(Deadline::After(kLong))->ok());
  workers[1].Signal(SIGCONT);
  ChildProcess third = StartControllerProcess();
  ExpectWorks();
  // They stop when asked, at any time.
  for (ChildProcess& worker : workers) {
    ASSERT_TRUE(worker.Running());
    EXPECT_TRUE(worker.Terminate(Deadline::After(kLong))->ok());
  }
}

}  // namespace
}  // namespace lockstep::testing
