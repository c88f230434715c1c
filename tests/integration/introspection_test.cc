// What a cluster tells of its sessions and of what their registers hold.
#include <chrono>
#include <map>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kForEver = 3600;  // seconds; lockstep.sleep ends when its session fails

class IntrospectionTest : public OwnClusterFixture {
 protected:
  void SetUp() override {
    ClusterOptions options;
    options.controller.heartbeat_interval = 50ms;
    SessionOptions session = Options();
    session.keep_for = 1h;
    Start(options, session);
  }

  std::vector<RankRegisters> Registers(const RegisterQuestion& question = {}) {
    return Unwrap(ListRegisters(cluster_->address(), question, support::kLong));
  }
  SessionStatus OwnStatus() {
    const ClusterStatus status = Unwrap(GetClusterStatus(cluster_->address(), support::kLong));
    if (status.sessions.size() == 1) return status.sessions[0];
    ADD_FAILURE() << status.sessions.size() << " sessions";
    return {};
  }
  void AwaitSleepOf(Rank rank) {
    const Deadline deadline = Deadline::After(support::kLong);
    while (Unwrap(GetClusterStatus(cluster_->address(), support::kLong))
               .workers[static_cast<size_t>(rank)]
               .activity.what != "lockstep.sleep") {
      ASSERT_FALSE(deadline.Expired());
      support::LetOthersWork();
    }
  }
  void SleepOn(Rank rank) {
    (void)Unwrap(session_->Call(Function("lockstep.sleep"), kForEver, rank));
    EXPECT_OK(session_->Flush());
    AwaitSleepOf(rank);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, IntrospectionTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(IntrospectionTest, EveryRankTellsWhatItHoldsThoughNothingHappens) {
  const DRef weights = FullOfRank({2, 3});
  EXPECT_OK(session_->Name(weights, "weights"));
  const DRef number = Call("lockstep.worker_rank");
  EXPECT_OK(session_->SyncAll());
  const auto ranks = Registers();
  ASSERT_EQ(ranks.size(), static_cast<size_t>(kWorkers));
  for (const RankRegisters& rank : ranks) {
    EXPECT_EQ(rank.why, "");
    ASSERT_EQ(rank.sessions.size(), 1u);
    EXPECT_EQ(rank.sessions[0].session, session_->id());
    EXPECT_EQ(rank.sessions[0].registers, rank.sessions[0].listed.size());
    std::map<RegisterId, HeldRegister> held;
    for (const HeldRegister& entry : rank.sessions[0].listed) held[entry.id] = entry;
    EXPECT_EQ(held[weights.id()].name, "weights");
    EXPECT_EQ(held[weights.id()].dtype, "float32");
    EXPECT_THAT(held[weights.id()].shape, ElementsAre(2, 3));
    EXPECT_EQ(held[weights.id()].bytes, 24u);
    EXPECT_EQ(held[number.id()].type, "int64");
    EXPECT_EQ(held[number.id()].bytes, 0u);
  }
  EXPECT_EQ(Registers({.session = {}, .rank = 2, .most = 1}).at(0).rank, 2);
  EXPECT_EQ(Registers({.session = {}, .rank = 2, .most = 1}).at(0).sessions.at(0).listed.size(),
            1u);
}

TEST_P(IntrospectionTest, ARankThatIsBusySaysWithWhatAndTheOthersTell) {
  SleepOn(2);
  const auto ranks = Registers();
  EXPECT_THAT(ranks[2].why, AllOf(HasSubstr("busy with command"), HasSubstr("(lockstep.sleep)")));
  EXPECT_EQ(ranks[2].activity.session, session_->id());
  EXPECT_TRUE(ranks[2].sessions.empty());
  for (const Rank rank : {0, 1, 3}) {
    EXPECT_EQ(ranks[static_cast<size_t>(rank)].sessions.size(), 1u);
  }
  // It executes on as if it had not been asked.
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Registers()[2].sessions.size(), 1u);
}

TEST_P(IntrospectionTest, AWorkerInALongBatchTellsBetweenTwoCommands) {
  const DRef sleep = Function("lockstep.sleep");
  // One batch: each of its commands is short, all together take longer than the question waits.
  for (int i = 0; i < 400; ++i) (void)Unwrap(session_->Call(sleep, 0.05, 1));
  EXPECT_OK(session_->Flush());
  AwaitSleepOf(1);
  EXPECT_EQ(Registers()[1].why, "");
  EXPECT_OK(session_->Reset());
}

TEST_P(IntrospectionTest, ASessionThatFailedSaysSoAndCountsItsResets) {
  EXPECT_EQ(OwnStatus().error, "");
  (void)Unwrap(session_->Call(Function("lockstep.fail"), std::string("oops"), 1));
  EXPECT_FALSE(session_->SyncAll().ok());
  const SessionStatus failed = OwnStatus();
  EXPECT_THAT(failed.error, HasSubstr("oops"));
  EXPECT_FALSE(failed.broken);
  EXPECT_FALSE(failed.detached);
  EXPECT_GT(failed.commands, 0u);
  EXPECT_OK(session_->Reset());
  const SessionStatus again = OwnStatus();
  EXPECT_EQ(again.error, "");
  EXPECT_EQ(again.generation, 1u);
  EXPECT_GE(again.age, failed.age);
}

TEST_P(IntrospectionTest, ASessionWithoutAClientSaysForHowLongItIsKept) {
  EXPECT_OK(session_->Detach());
  const SessionStatus detached = OwnStatus();
  EXPECT_TRUE(detached.detached);
  EXPECT_FALSE(detached.client_lost);
  EXPECT_GT(detached.kept, 50min);
  EXPECT_LE(detached.kept, 1h);
}

TEST_P(IntrospectionTest, CollectivesAreCountedWithWhatTheyCarry) {
  const DRef tensor = FullOfRank({1024});
  for (int i = 0; i < 10; ++i) (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));
  EXPECT_OK(session_->SyncAll());
  const Deadline deadline = Deadline::After(support::kLong);
  while (true) {
    const ClusterStatus status = Unwrap(GetClusterStatus(cluster_->address(), support::kLong));
    uint64_t last = 0;
    bool all = true;
    for (const WorkerStatus& worker : status.workers) {
      last += worker.times_last;
      all = all && worker.activity.collectives == 10 && worker.activity.bus_bytes > 0 &&
            worker.activity.in_collectives > 0ns;
    }
    // Heartbeats bring it.
    if (all && status.compared_collectives >= 10) {
      EXPECT_EQ(last, status.compared_collectives) << "a rank comes last to each";
      return;
    }
    ASSERT_FALSE(deadline.Expired());
    support::LetOthersWork();
  }
}

TEST_P(IntrospectionTest, WhoAsksTheWorkersTwiceAtOnceIsRefused) {
  SleepOn(1);  // its answer takes a moment
  WireClient client(cluster_->address());
  const auto ask = [](wire::ClientMessage::Builder message) {
    message.initListRegisters().setRequest(5);
  };
  client.Send(ask);
  client.Send([](wire::ClientMessage::Builder message) { message.setExplain(6); });
  const Status verdict = client.NextVerdict();
  EXPECT_EQ(verdict.code(), StatusCode::kResourceExhausted) << verdict;
  EXPECT_TRUE(client.WaitFor([](wire::ControllerMessage::Reader reader) {
    return reader.isRegisterListing() && reader.getRegisterListing().getRequest() == 5;
  }));
  client.Send(ask);
  EXPECT_TRUE(client.WaitFor([](wire::ControllerMessage::Reader reader) {
    return reader.isRegisterListing();
  })) << "the next one is answered";
  EXPECT_OK(session_->Reset());
}

}  // namespace
}  // namespace lockstep::testing
