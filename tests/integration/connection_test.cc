// Connections that break: what is lost is told in time, and all others go on.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/session.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorkers = 2;

class ConnectionTest : public ServicesFixture {
 protected:
  void SetUp() override {
    ServicesFixture::SetUp();
    controller::ControllerOptions options;
    options.workers = kWorkers;
    options.client_endpoint = kAnyPort;
    options.worker_endpoint = kAnyPort;
    options.liveness_endpoint = kAnyPort;
    options.heartbeat_interval = 50ms;
    options.worker_timeout = 1s;
    options.session_lease = 2s;
    // What shared memory carries does not break with a wire.
    options.command_rings = "off";
    StartController(options);
    to_clients_ = std::make_unique<support::TcpProxy>(controller_->client_endpoint());
    to_workers_ = std::make_unique<support::TcpProxy>(controller_->worker_endpoint());
  }
  // Rank 1 reaches the controller over a wire that can be cut.
  void StartWorkers() {
    StartWorkerAt(0, controller_->worker_endpoint());
    StartWorkerAt(1, to_workers_->endpoint());
  }
  worker::Worker& StartWorkerAt(Rank rank, const std::string& endpoint) {
    worker::WorkerOptions options = SmallWorker(rank);
    options.controller_endpoint = endpoint;
    return ServicesFixture::StartWorker(options);
  }
  Session Open(const std::string& endpoint) {
    SessionOptions options;
    options.endpoint = endpoint;
    options.connect_timeout = kLong;
    options.timeout = kLong;
    return Unwrapped(Session::Connect(options, context_));
  }

  std::unique_ptr<support::TcpProxy> to_clients_;
  std::unique_ptr<support::TcpProxy> to_workers_;
};

// Both ends live, and commands do not arrive: without a word this would look like a slow worker.
TEST_F(ConnectionTest, WorkerThatGetsNoCommandsIsGivenUpAndCanBeReplaced) {
  StartWorkers();
  Session session = Open(controller_->client_endpoint());
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const auto begin = Deadline::Clock::now();
  // For good: a wire that is there again before anything was sent has lost nothing.
  to_workers_->Unplug();
  Status status;
  while (status.ok() && Deadline::Clock::now() - begin < kLong) status = session.SyncAll();
  EXPECT_LT(Deadline::Clock::now() - begin, 15s);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("rank 1"), HasSubstr("its connection is broken")));
  EXPECT_EQ(workers_[1]->Wait(Deadline::After(kLong)).code(), StatusCode::kAborted)
      << "it is dismissed";
  StartWorkerAt(1, controller_->worker_endpoint());
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  EXPECT_EQ(session.Reset(), OkStatus());
  EXPECT_EQ(session.Barrier(), OkStatus());
  EXPECT_EQ(session.SyncAll(), OkStatus());
}

// It comes back by itself; what was on its way is lost, and told.
TEST_F(ConnectionTest, ClientWhoseConnectionBreaksLearnsItSoonAndGoesOn) {
  StartWorkers();
  Session other = Open(controller_->client_endpoint());
  Session session = Open(to_clients_->endpoint());
  const auto function = session.GetFunction("lockstep.identity");
  ASSERT_TRUE(function.ok()) << function.status();
  const auto kept = session.Call(*function, "kept");
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(session.SyncAll(), OkStatus());
  for (int i = 0; i < 3; ++i) {
    const auto begin = Deadline::Clock::now();
    for (int call = 0; call < 2000; ++call) {
      if (!session.Barrier().ok()) break;
      if (call == 1000) to_clients_->Cut();
    }
    const Status status = session.SyncAll();
    EXPECT_LT(Deadline::Clock::now() - begin, 10s) << status;
    EXPECT_EQ(other.SyncAll(), OkStatus());
    std::this_thread::sleep_for(700ms);  // until both have counted
    // If it was the question that was lost and not the answer, the next one tells.
    if (!session.SyncAll().ok()) {
      EXPECT_EQ(session.Reset(), OkStatus());
    }
    EXPECT_EQ(session.SyncAll(), OkStatus());
    const auto value = session.DebugGet(*kept, 1);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, Value("kept"));
  }
}

// Calls in a hurry, cut again and again: no call waits beyond its time, and the cluster serves
// others.
TEST_F(ConnectionTest, ClientsThatAreCutOffInTheMiddleOfTheirWorkHarmNobody) {
  StartWorkers();
  for (int i = 0; i < 5; ++i) {
    Session session = Open(to_clients_->endpoint());
    const auto nop = session.GetFunction("lockstep.nop");
    ASSERT_TRUE(nop.ok()) << nop.status();
    const auto begin = Deadline::Clock::now();
    Status status;
    for (int call = 0; status.ok() && call < 5000; ++call) {
      status = session.Call(*nop, call).status();
      if (call == 1000 * i) to_clients_->Cut();
    }
    status.Update(session.SyncAll());
    EXPECT_LT(Deadline::Clock::now() - begin, 10s) << status;
    Session other = Open(controller_->client_endpoint());
    EXPECT_EQ(other.SyncAll(), OkStatus());
  }
}

}  // namespace
}  // namespace lockstep::testing
