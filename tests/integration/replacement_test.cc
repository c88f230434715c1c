// Lost workers that are replaced: the newcomer has nothing, the others lose nothing, and none but
// the sessions' own programs has to do anything about it.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/plan/program.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/recovery_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReplacementTest : public RecoveryFixture {
 protected:
  void SetUp() override {
    RecoveryFixture::SetUp();
    StartController(Options());
    StartWorkers();
  }
  void Stop(Rank rank) { Suspend(processes_[static_cast<size_t>(rank)].pid()); }
};

// The workers may load the module with a function that nothing can end.
class StallingTest : public ReplacementTest {
 protected:
  void SetUp() override {
    worker_settings_ = {"module_path=" + ModuleDirectory()};
    ReplacementTest::SetUp();
  }
};

TEST_F(ReplacementTest, OthersKeepTheirRegistersAndTheLossIsTold) {
  Session& session = Open();
  const DRef before = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const std::vector<WorkerInfo> old = session.workers();

  Kill(2);
  EXPECT_THAT(Message(session.SyncAll()), AllOf(HasSubstr("rank 2"), HasSubstr("is lost")));
  EXPECT_EQ(session.Reset().code(), StatusCode::kUnavailable) << "no worker has its rank yet";
  EXPECT_THAT(Message(session.AwaitWorkers(50ms)), HasSubstr("rank 2"));
  Replace(2);
  Recover(session);

  EXPECT_EQ(session.workers()[0].pid, old[0].pid);
  EXPECT_EQ(session.workers()[1].pid, old[1].pid);
  EXPECT_EQ(session.workers()[2].pid, processes_[2].pid());
  EXPECT_THAT(Lost(session, before), ElementsAre(2));
  EXPECT_THAT(Elements(session, before, 0), Each(0.0f));
  EXPECT_THAT(Elements(session, before, 1), Each(1.0f));
  EXPECT_THAT(Message(session.DebugGet(before, 2).status()),
              AllOf(HasSubstr("rank 2"), HasSubstr("another worker since command")));
  EXPECT_EQ(session.Reset(), OkStatus());

  const DRef after = Unwrap(session.Broadcast(before, 1));
  EXPECT_THAT(Lost(session, after), IsEmpty());
  EXPECT_THAT(Elements(session, after, 2), Each(1.0f));
  ExpectConnected(session);
}

// The client has mapped its memory, and knows where its registers were.
TEST_F(ReplacementTest, CopiesGoToTheNewWorkerZero) {
  Session& session = Open();
  const std::vector<float> data = {1, 2, 3, 4};
  const DRef old = Unwrap(session.CopyToWorker0({4}, {data.data(), 4, DType::kFloat32}));
  std::vector<float> back(4);
  ASSERT_EQ(session.CopyFromWorker0({back.data(), 4, DType::kFloat32}, old), OkStatus());

  Kill(0);
  EXPECT_EQ(session.SyncAll().code(), StatusCode::kUnavailable);
  Replace(0);
  Recover(session);
  EXPECT_THAT(Message(session.CopyFromWorker0({back.data(), 4, DType::kFloat32}, old)),
              HasSubstr("another worker since"));
  ASSERT_EQ(session.Reset(), OkStatus());
  const std::vector<float> more = {5, 6, 7, 8};
  const DRef copied = Unwrap(session.CopyToWorker0({4}, {more.data(), 4, DType::kFloat32}));
  const DRef everywhere = Unwrap(session.BroadcastFromWorker0(copied));
  EXPECT_THAT(Elements(session, everywhere, 2), ElementsAre(5, 6, 7, 8));
  ASSERT_EQ(session.CopyFromWorker0({back.data(), 4, DType::kFloat32}, copied), OkStatus());
  EXPECT_EQ(back, more);
}

TEST_F(ReplacementTest, PlansAreBoundAnewAfterALoss) {
  Session& session = Open();
  const plan::Mesh mesh = *plan::Mesh::Line({2, 0});
  const plan::Layout rows =
      *plan::Layout::Make({4}, DType::kInt32, mesh, {plan::Placement::Shard(0)});
  const plan::Layout whole =
      *plan::Layout::Make({4}, DType::kInt32, mesh, {plan::Placement::Replicate()});
  plan::ProgramBuilder builder;
  builder.Output("y", builder.Reshard(builder.Input("x", rows), whole));
  const plan::Program program = *builder.Build();
  const HostTensor numbers = HostTensor::Of<int32_t>({4}, std::vector<int32_t>{1, 2, 3, 4});
  const auto bind = [&] {
    return session.Bind(program, {.inputs = {{"x", *session.Place(numbers, rows)}}});
  };
  StatusOr<BoundPlan> plan = bind();
  ASSERT_TRUE(plan.ok()) << plan.status();
  plan = bind();  // by its key, which the worker that replaces another does not know
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->Execute(), OkStatus());
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(2);
  (void)plan->Execute();
  EXPECT_THAT(Message(session.SyncAll()), AllOf(HasSubstr("rank 2"), HasSubstr("is lost")));
  Replace(2);
  Recover(session);
  EXPECT_THAT(Message(plan->Execute()), HasSubstr("bind it again"));
  for (int i = 0; i < 2; ++i) {
    plan = bind();
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->Execute(), OkStatus());
    EXPECT_EQ(*session.Collect(*plan->Output("y")), numbers);
  }
}

TEST_F(ReplacementTest, EveryRankCanBeReplacedOneAfterTheOther) {
  Session& session = Open();
  DRef state = Unwrap(session.Broadcast(FullOfRank(session), 2));
  for (Rank lost = 0; lost < kWorkers; ++lost) {
    ASSERT_EQ(session.SyncAll(), OkStatus());
    Kill(lost);
    EXPECT_EQ(session.SyncAll().code(), StatusCode::kUnavailable);
    Replace(lost);
    Recover(session);
    state = Unwrap(session.Broadcast(state, (lost + 1) % kWorkers));
    ExpectConnected(session);
  }
  EXPECT_THAT(Elements(session, state, 0), Each(2.0f));
}

TEST_F(ReplacementTest, NobodyIsWelcomedUntilAllLostRanksHaveBeenAskedFor) {
  Session& session = Open();
  const DRef before = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(0);
  Kill(2);
  Replace(2);
  EXPECT_THAT(Message(session.AwaitWorkers(300ms)), HasSubstr("rank 0"));
  Replace(0);
  Recover(session);
  EXPECT_THAT(Lost(session, before), ElementsAre(0, 2));
  EXPECT_THAT(Elements(session, before, 1), Each(1.0f));
  ExpectConnected(session);
}

// It had asked for the rank, or was connecting already: both ways the rank is to be had again.
TEST_F(ReplacementTest, ReplacementThatDiesIsReplaced) {
  Session& session = Open();
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(1);
  Kill(2);
  Replace(2);
  EXPECT_FALSE(session.AwaitWorkers(200ms).ok());
  Kill(2);
  Replace(1);
  Replace(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(20ms * i);
    Kill(2);
    Replace(2);
  }
  Recover(session);
  ExpectConnected(session);
}

TEST_F(ReplacementTest, WorkerThatAsksForAnyRankGetsTheLostOne) {
  Session& session = Open();
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(1);
  processes_[1] = StartWorkerProcess(-1);
  Recover(session);
  EXPECT_EQ(session.workers()[1].pid, processes_[1].pid());
  ExpectConnected(session);
}

// All of them fail; each goes on when its own program says so.
TEST_F(ReplacementTest, EverySessionGoesOn) {
  Session& first = Open();
  Session& second = Open();
  const DRef of_first = FullOfRank(first);
  const DRef of_second = FullOfRank(second);
  ASSERT_EQ(first.SyncAll(), OkStatus());
  ASSERT_EQ(second.SyncAll(), OkStatus());
  // Two ranks of the first are in a collective, and wait for the one that dies.
  (void)Call(first, "lockstep.sleep", {client::Argument(3600.0), client::Argument(2)});
  (void)Unwrap(first.AllReduce(of_first, Reduction::kSum));
  ASSERT_EQ(first.Flush(), OkStatus());
  Kill(2);
  EXPECT_EQ(first.SyncAll().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.SyncAll().code(), StatusCode::kUnavailable);
  Replace(2);
  Recover(second);
  ExpectConnected(second);
  EXPECT_THAT(Elements(second, of_second, 1), Each(1.0f));
  EXPECT_EQ(first.SyncAll().code(), StatusCode::kUnavailable) << "until it is reset";
  Recover(first);
  ExpectConnected(first);
  EXPECT_THAT(Elements(first, of_first, 1), Each(1.0f));
}

TEST_F(ReplacementTest, ClientsThatComeMeanwhileWait) {
  Session& first = Open();
  ASSERT_EQ(first.SyncAll(), OkStatus());
  Kill(2);
  EXPECT_FALSE(first.SyncAll().ok());
  SessionOptions options;
  options.endpoint = IpcEndpoint("clients");
  options.connect_timeout = 300ms;
  const Status refused = Session::Connect(options, context_).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(refused), HasSubstr("rank 2"));
  std::thread replace([&] {
    std::this_thread::sleep_for(200ms);
    Replace(2);
  });
  ExpectConnected(Open());
  replace.join();
}

// Given up while it was stopped, it finds its rank taken when it goes on.
TEST_F(ReplacementTest, FrozenWorkerThatWakesUpAfterwardsHarmsNobody) {
  Session& session = Open();
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Stop(2);
  ChildProcess frozen = std::move(processes_[2]);
  EXPECT_THAT(Message(session.SyncAll()), HasSubstr("is stopped"));
  Replace(2);
  Recover(session);
  const DRef ranks = FullOfRank(session);
  ExpectConnected(session);
  frozen.Signal(SIGCONT);
  EXPECT_TRUE(frozen.Wait(Deadline::After(kLong)).ok()) << "it was dismissed";
  EXPECT_THAT(Elements(session, ranks, 2), Each(2.0f));
  ExpectConnected(session);
}

// Rank 0 waits for the one that is frozen, in a command before the one that has failed, and the
// client has reset the session before the loss is known.
TEST_F(ReplacementTest, LossAfterAResetWakesWhoStillWaits) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  const DRef fail = Unwrap(session.GetFunction("lockstep.fail"));
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Stop(1);
  (void)Unwrap(session.AllReduce(ranks, Reduction::kSum, {.team = {0, 1}}));
  (void)Unwrap(session.Call(fail, "first", 2));
  EXPECT_THAT(Message(session.Sync(2)), HasSubstr("first"));
  // Rank 1 cannot execute it; the loss, when it is known, answers.
  EXPECT_EQ(session.Reset().code(), StatusCode::kUnavailable);
  // It is frozen still, so no kernel tells its peers that it has ended.
  ChildProcess frozen = std::move(processes_[1]);
  Replace(1);
  Recover(session);
  ExpectConnected(session);
  EXPECT_THAT(Elements(session, ranks, 0), Each(0.0f));
  frozen.Signal(SIGKILL);
  EXPECT_TRUE(frozen.Wait(Deadline::After(kLong)).ok());
}

// Rank 0 is behind by two resets when the loss becomes known, and meets the frozen one only in the
// generation between.
TEST_F(StallingTest, LossIsKnownInEveryGenerationThatARankHasYetToComeTo) {
  SessionOptions options = Patient();
  options.timeout = 400ms;
  Session session = Unwrapped(Session::Connect(options, context_));
  const DRef ranks = FullOfRank(session);
  const DRef fail = Unwrap(session.GetFunction("lockstep.fail"));
  const DRef module = Unwrap(session.LoadModule("test_module.so"));
  const DRef stall = Unwrap(session.GetFunction(module, "stall"));
  const DRef own_rank = Call(session, "lockstep.worker_rank", {});
  (void)Unwrap(session.Call(stall, 5.0, own_rank, 0));
  EXPECT_FALSE(session.Sync(0).ok()) << "it is in the function by now";
  EXPECT_FALSE(session.Reset().ok()) << "rank 0 has not come to it";
  (void)Unwrap(session.AllReduce(ranks, Reduction::kSum, {.team = {0, 1}}));
  (void)Unwrap(session.Call(fail, "first", 2));
  EXPECT_THAT(Message(session.Sync(2)), HasSubstr("first"));
  Stop(1);
  EXPECT_FALSE(session.Reset().ok());
  while (session.AwaitWorkers(50ms).ok()) std::this_thread::sleep_for(10ms);
  ChildProcess frozen = std::move(processes_[1]);
  Replace(1);
  EXPECT_EQ(session.AwaitWorkers(kLong), OkStatus());
  EXPECT_EQ(session.Reset(), OkStatus());
  EXPECT_THAT(Elements(session, ranks, 0), Each(0.0f));
  frozen.Signal(SIGKILL);
  EXPECT_TRUE(frozen.Wait(Deadline::After(kLong)).ok());
}

TEST_F(ReplacementTest, WhoAttachesAfterwardsIsToldWhatIsLost) {
  Session session = Unwrapped(Session::Connect(Kept(), context_));
  const DRef before = FullOfRank(session);
  ASSERT_EQ(session.Name(before, "before"), OkStatus());
  Kill(2);
  EXPECT_FALSE(session.SyncAll().ok());
  Replace(2);
  Recover(session);
  ASSERT_EQ(session.Name(Unwrap(session.Broadcast(before, 1)), "after"), OkStatus());
  const std::string ticket = session.ticket();
  ASSERT_EQ(session.Detach(), OkStatus());
  Session second = Unwrapped(Session::Attach(Kept(), ticket, context_));
  EXPECT_THAT(Lost(second, Unwrap(second.Find("before"))), ElementsAre(2));
  EXPECT_THAT(Lost(second, Unwrap(second.Find("after"))), IsEmpty());
  EXPECT_THAT(Elements(second, Unwrap(second.Find("after")), 2), Each(1.0f));
}

TEST_F(ReplacementTest, SessionThatIsClosedMeanwhileLeavesNothing) {
  Session& session = Open();
  (void)FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  Kill(2);
  (void)session.Close();  // whether it has seen the loss or not
  Replace(2);
  ExpectConnected(Open());
  const auto status = GetClusterStatus(IpcEndpoint("clients"), kLong);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->sessions.size(), 1u);
}

// No rank waits for longer than this in a collective.
class ShortCollectivesTest : public ReplacementTest {
 protected:
  void SetUp() override {
    RecoveryFixture::SetUp();
    controller::ControllerOptions options = Options();
    options.collective_timeout = 150ms;
    options.worker_timeout = kLong;
    StartController(options);
    StartWorkers();
  }
};

// It may be in a function that takes hours: the world waits for it, as long as it lives.
TEST_F(ShortCollectivesTest, RankMayComeToTheNextWorldAsLateAsItLikes) {
  Session& session = Open();
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  for (int round = 0; round < 3; ++round) {
    Stop(0);
    Kill(2);
    Replace(2);
    EXPECT_FALSE(session.AwaitWorkers(600ms + round * 77ms).ok());
    processes_[0].Signal(SIGCONT);
    Recover(session);
    ExpectConnected(session);
  }
  EXPECT_THAT(Elements(session, ranks, 1), Each(1.0f));
}

}  // namespace
}  // namespace lockstep::testing
