// Sessions that are closed while they still work: they are answered, kept alive, and aborted when
// their client waits for them no more. And time-outs: they are kept.
#include <algorithm>
#include <chrono>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class ClosingTest : public OwnClusterFixture {
 protected:
  void SetUp() override { Start(support::kLong); }

  void TearDown() override {
    // Or else the others wait for the stuck session here.
    if (session_ != nullptr) {
      (void)ShutdownCluster(cluster_->address(), "the test is over", support::kLong);
    }
    SessionFixture::TearDown();
  }

  // By itself a rank leaves a collective, and a lost client is noticed, long after the test.
  void Start(std::chrono::milliseconds lease) {
    session_.reset();
    cluster_.reset();
    ClusterOptions options;
    options.controller.collective_timeout = 10min;
    options.controller.session_lease = lease;
    OwnClusterFixture::Start(options);
  }

  // A session whose ranks wait in a barrier for one that never comes.
  WireClient Stuck() {
    WireClient client(cluster_->address());
    EXPECT_EQ(client.Open(), OkStatus());
    client.SendBatch(client.session(), StuckBody(), 1, 0, -1, kStuckCommands);
    return client;
  }
  static bool IsClosing(WireClient& client) {
    bool closing = false;
    return client.Inspect([&](wire::SessionStatus::Reader now) { closing = now.getClosing(); }) &&
           closing;
  }
  void ExpectOthersWork() {
    const auto begin = Deadline::Clock::now();
    EXPECT_OK(session_->SyncAll());
    EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, ClosingTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

// What was sent before is executed, however long the lease is.
TEST_P(ClosingTest, CloseMayTakeLongerThanTheLease) {
  Start(1s);
  (void)Unwrap(session_->Call(Function("lockstep.sleep"), 3.0, 1));
  EXPECT_OK(session_->Close());
}

TEST_P(ClosingTest, KeepAlivesAreAnsweredUntilTheEnd) {
  WireClient client = Stuck();
  client.SendClose(1, support::kLong);
  client.Send([&](wire::ClientMessage::Builder m) {
    m.initKeepAlive().setSession(client.session().value);
  });
  EXPECT_TRUE(
      client.WaitFor([](wire::ControllerMessage::Reader reader) { return reader.isKeepAlive(); }));
  EXPECT_TRUE(IsClosing(client));
}

TEST_P(ClosingTest, WorkThatIsLeftAtTheDeadlineIsAborted) {
  WireClient client = Stuck();
  client.SendClose(1, 100ms);
  const lockstep::Status late = client.NextVerdict();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(Message(late), AnyOf(HasSubstr("rank 0"), HasSubstr("ranks 0")));
  ExpectOthersWork();
  const Deadline deadline = Deadline::After(support::kLong);
  while (Unwrap(GetClusterStatus(cluster_->address(), support::kLong)).sessions.size() > 1) {
    ASSERT_FALSE(deadline.Expired()) << "the session has ended on all ranks";
    support::LetOthersWork();
  }
}

TEST_P(ClosingTest, WorkOfAClientThatIsLostWhileItClosesIsAborted) {
  Start(1s);
  WireClient client = Stuck();
  client.SendClose(1, 10min);
  ASSERT_TRUE(IsClosing(client));
  ExpectOthersWork();
}

TEST_P(ClosingTest, ShutdownAnswersACloseAndAbortsItsWork) {
  WireClient client = Stuck();
  client.SendClose(1, 10min);
  ASSERT_TRUE(IsClosing(client));
  const auto begin = Deadline::Clock::now();
  EXPECT_OK(ShutdownCluster(cluster_->address(), "time for maintenance", support::kLong));
  const lockstep::Status answer = client.NextVerdict();
  EXPECT_EQ(answer.code(), StatusCode::kUnavailable) << answer;
  EXPECT_THAT(Message(answer), HasSubstr("time for maintenance"));
  session_.reset();
  EXPECT_OK(cluster_->Stop());
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
}

TEST_P(ClosingTest, ClosedSessionTakesNothingMore) {
  WireClient client = Stuck();
  client.SendClose(1, support::kLong);
  client.SendBatch(client.session(), control::Frame::Copy("12345678", 8), kStuckCommands + 1, 2);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kFailedPrecondition);
  client.SendReset(1, 3);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kFailedPrecondition);
  client.SendClose(4, support::kLong);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kFailedPrecondition);
}

// The first wait may happen to end with another timer; the others would all take half a second.
TEST_P(ClosingTest, ShortTimeOutsAreKept) {
  WireClient client = Stuck();
  const control::Frame sync =
      control::OneCommand([](wire::Command::Builder command) { command.setSync(); });
  auto shortest = Deadline::Clock::duration::max();
  client.SendBatch(client.session(), sync, kStuckCommands + 1, 1, -1, 1, 20ms);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDeadlineExceeded);
  for (uint64_t i = 0; i < 5; ++i) {
    const auto begin = Deadline::Clock::now();
    client.SendBatch(client.session(), sync, kStuckCommands + 2 + i, 2 + i, -1, 1, 20ms);
    EXPECT_EQ(client.NextVerdict().code(), StatusCode::kDeadlineExceeded);
    shortest = std::min(shortest, Deadline::Clock::now() - begin);
  }
  EXPECT_LT(shortest, 300ms);
}

}  // namespace
}  // namespace lockstep::testing
