// Workers that get their commands from one another: what they are told, and what becomes of those
// below a relay that is lost.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/integration/recovery_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ranks 0 and 1 get commands from the controller, 2 and 3 from rank 0, 4 and 5 from 1, 6 and 7
// from 2.
class RelaysTest : public RecoveryFixture {
 protected:
  static constexpr int kInTree = 8;

  void SetUp() override {
    RecoveryFixture::SetUp();
    controller::ControllerOptions options = Options();
    options.workers = kInTree;
    // All are on this host.
    options.command_rings = "off";
    options.relays_from = kInTree;
    options.relay_fan_out = 2;
    StartController(options);
    for (Rank rank = 0; rank < kInTree; ++rank) processes_.push_back(StartWorkerProcess(rank));
  }
  std::vector<Rank> ByRelay() const {
    std::vector<Rank> ranks;
    const auto status = GetClusterStatus(ControllerAddress(IpcEndpoint("clients")), kLong);
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return ranks;
    for (const WorkerStatus& worker : status->workers) {
      if (worker.by_relay) ranks.push_back(worker.rank);
    }
    return ranks;
  }
  // Every worker below a relay gets its commands from there; that takes some commands.
  void AwaitTree(Session& session) {
    const Deadline deadline = Deadline::After(kLong);
    while (ByRelay().size() < 6 && !deadline.Expired()) ASSERT_EQ(session.SyncAll(), OkStatus());
    EXPECT_THAT(ByRelay(), ElementsAre(2, 3, 4, 5, 6, 7));
  }
  void ExpectAllConnected(Session& session) {
    const DRef sum = Unwrap(session.AllReduce(FullOfRank(session), Reduction::kSum));
    for (Rank rank = 0; rank < kInTree; ++rank) {
      EXPECT_THAT(Elements(session, sum, rank), Each(28.0f)) << "rank " << rank;
    }
  }
};

TEST_F(RelaysTest, CommandsAndAnswersPassThroughOtherWorkers) {
  Session& session = Open();
  AwaitTree(session);
  const DRef ranks = FullOfRank(session);
  for (Rank rank = 0; rank < kInTree; ++rank) {
    EXPECT_THAT(Elements(session, ranks, rank), Each(static_cast<float>(rank)));
  }
  ExpectAllConnected(session);
  // A command that makes a packet by itself, and an answer that makes a bundle.
  const std::vector<float> large(100'000, 3.0f);
  const DRef copy = FullOfRank(session);
  ASSERT_EQ(session.DebugSet(copy, 7, Value(HostTensor::Of<float>({100'000}, large))), OkStatus());
  EXPECT_EQ(Elements(session, copy, 7), large);
  const DRef nop = Unwrap(session.GetFunction("lockstep.nop"));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(session.Call(nop).ok());
  EXPECT_EQ(session.SyncAll(), OkStatus());
  EXPECT_EQ(session.Close(), OkStatus());
}

TEST_F(RelaysTest, AWorkerThatExecutesPassesOnMeanwhile) {
  Session& session = Open();
  AwaitTree(session);
  const DRef ranks = FullOfRank(session);
  ASSERT_TRUE(session.Call(Unwrap(session.GetFunction("lockstep.sleep")), 3600.0, 0).ok());
  for (Rank rank = 1; rank < kInTree; ++rank) {
    EXPECT_THAT(Elements(session, ranks, rank), Each(static_cast<float>(rank)));
  }
  EXPECT_EQ(session.Reset(), OkStatus());
  EXPECT_EQ(session.SyncAll(), OkStatus());
}

TEST_F(RelaysTest, AnErrorOfAWorkerIsToldThroughOthers) {
  Session& session = Open();
  AwaitTree(session);
  ASSERT_TRUE(session.Call(Unwrap(session.GetFunction("lockstep.fail")), "no luck", 7).ok());
  EXPECT_THAT(Message(session.SyncAll()), AllOf(HasSubstr("rank 7"), HasSubstr("no luck")));
  EXPECT_EQ(session.Reset(), OkStatus());
  ExpectAllConnected(session);
}

// Killed while commands are under way: those below keep what they hold, and execute all that was
// sent before.
TEST_F(RelaysTest, ALostRelayCostsItsOwnRegistersAlone) {
  Session& session = Open();
  AwaitTree(session);
  for (const Rank lost : {0, 2, 1}) {
    SCOPED_TRACE("rank " + std::to_string(lost));
    const DRef nop = Unwrap(session.GetFunction("lockstep.nop"));
    const DRef before = FullOfRank(session);
    ASSERT_EQ(session.SyncAll(), OkStatus());
    for (int i = 0; i < 2'000; ++i) (void)session.Call(nop);
    (void)session.Flush();
    Kill(lost);
    // Nobody's answer comes any more once the session has failed; until then all may.
    Status status;
    while (status.ok()) status = session.SyncAll();
    EXPECT_THAT(Message(status), HasSubstr("rank " + std::to_string(lost)));
    Replace(lost);
    Recover(session);
    for (Rank rank = 0; rank < kInTree; ++rank) {
      if (rank == lost) continue;
      EXPECT_THAT(Elements(session, before, rank), Each(static_cast<float>(rank)));
    }
    EXPECT_THAT(Lost(session, before), ElementsAre(lost));
    AwaitTree(session);
    ExpectAllConnected(session);
  }
}

// A world that has lost a worker goes on opening and closing sessions.
TEST_F(RelaysTest, SessionsCloseWhileARelayIsLost) {
  Session& session = Open();
  Session& other = Open();
  AwaitTree(session);
  const DRef before = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(0);
  // With the loss, if that is known by then.
  EXPECT_THAT(other.Close().code(), AnyOf(StatusCode::kOk, StatusCode::kUnavailable));
  EXPECT_EQ(session.SyncAll().code(), StatusCode::kUnavailable);
  // Rank 0 passes nothing on: the controller does.
  EXPECT_THAT(ByRelay(), ElementsAre(4, 5, 6, 7));
  Replace(0);
  Recover(session);
  EXPECT_THAT(Elements(session, before, 7), Each(7.0f));
  AwaitTree(session);
}

}  // namespace
}  // namespace lockstep::testing
