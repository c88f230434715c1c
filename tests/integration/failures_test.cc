// The first cause wins, quickly, and costs other sessions nothing.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Far below every time-out that a hang would end with, and far above what a busy machine needs.
constexpr auto kQuick = 10s;

class FailuresTest : public SessionFixture {
 protected:
  // Issues a failure of rank 2, after `seconds` of sleep there.
  void FailOnRankTwo(Session& session, double seconds = 0) {
    if (seconds > 0) {
      (void)Unwrap(session.Call(Function(session, "lockstep.sleep"), seconds, 2));
    }
    (void)Unwrap(session.Call(Function(session, "lockstep.fail"), "the first cause", 2));
  }
  // Rank `rank` executes for so long what nothing can end; the others go on at once. Waits for
  // nobody.
  static void Stall(Session& session, double seconds, Rank rank) {
    const DRef module = Unwrap(session.LoadModule("test_module.so"));
    const DRef stall = Unwrap(session.GetFunction(module, "stall"));
    const DRef own_rank = Unwrap(session.Call(Function(session, "lockstep.worker_rank")));
    (void)Unwrap(session.Call(stall, seconds, own_rank, rank));
  }
  static void ExpectFirstCause(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status;
    EXPECT_THAT(Message(status), AllOf(HasSubstr("rank 2"), HasSubstr("the first cause")));
  }
  static void ExpectWorks(Session& session) {
    const DRef rank = Unwrap(session.Call(Function(session, "lockstep.worker_rank")));
    const DRef tensor =
        Unwrap(session.Call(Function(session, "lockstep.full"), Shape{3}, rank, DType::kInt64));
    const DRef sum = Unwrap(session.AllReduce(tensor, Reduction::kSum));
    const Value value = Unwrap(session.DebugGet(sum, 3));
    EXPECT_EQ(*value.As<HostTensor>()->Elements<int64_t>(), (std::vector<int64_t>{6, 6, 6}));
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FailuresTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(FailuresTest, CauseComesFromTheRankThatFailedAndNotFromThoseThatWaited) {
  const DRef tensor = FullOfRank({1000});
  (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));  // the communicator stands
  EXPECT_OK(session_->SyncAll());
  const auto begin = Deadline::Clock::now();
  FailOnRankTwo(*session_);
  (void)session_->AllReduce(tensor, Reduction::kSum);
  ExpectFirstCause(session_->SyncAll());
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
  EXPECT_OK(session_->Reset());
  ExpectWorks(*session_);
}

// The others wait for a communicator that rank 2 does not come to make.
TEST_P(FailuresTest, CauseComesWhileACommunicatorIsBeingMade) {
  const DRef tensor = FullOfRank({4});
  EXPECT_OK(session_->SyncAll());
  const auto begin = Deadline::Clock::now();
  FailOnRankTwo(*session_);
  (void)session_->AllReduce(tensor, Reduction::kSum);
  ExpectFirstCause(session_->SyncAll());
  EXPECT_OK(session_->Reset());
  ExpectWorks(*session_);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

// The others are in the collective for a while before the cause happens.
TEST_P(FailuresTest, CauseComesAfterTheOthersHaveWaited) {
  const DRef tensor = FullOfRank({4});
  (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum));
  FailOnRankTwo(*session_, 0.1);
  (void)session_->AllReduce(tensor, Reduction::kSum);
  ExpectFirstCause(session_->Sync(0));
  EXPECT_OK(session_->Reset());
  ExpectWorks(*session_);
}

TEST_P(FailuresTest, EveryPendingWaitGetsTheCause) {
  const DRef tensor = FullOfRank({4});
  FailOnRankTwo(*session_, 0.05);
  (void)session_->AllReduce(tensor, Reduction::kSum);
  std::vector<Status> statuses(4);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    threads.emplace_back([&, rank] { statuses[static_cast<size_t>(rank)] = session_->Sync(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) ExpectFirstCause(status);
}

TEST_P(FailuresTest, RegistersKeepTheirValuesThroughAFailure) {
  const DRef before = Call("lockstep.identity", "kept");
  FailOnRankTwo(*session_);
  EXPECT_FALSE(session_->SyncAll().ok());
  EXPECT_OK(session_->Reset());
  for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_EQ(Get(before, rank), Value("kept"));
}

// Rank 2 fails, and rank 1 hears of it in its sleep, before it has executed the calls and the
// transfer that come between. It executes them all the same, and receives what rank 2 has sent:
// after the reset all that was issued before the failure holds its value on every rank.
TEST_P(FailuresTest, RanksThatAreBehindCatchUpWithTheFailure) {
  const DRef identity = Function("lockstep.identity");
  const DRef tensor = FullOfRank({4});
  for (int round = 0; round < 10; ++round) {
    (void)Unwrap(session_->Transfer(tensor, 2, 1));  // makes the communicator, which takes both
    (void)Unwrap(session_->Call(Function("lockstep.sleep"), 0.02, 1));
    std::vector<DRef> before;
    for (int i = 0; i < 50; ++i) before.push_back(Unwrap(session_->Call(identity, i)));
    // Rank 2 sends, and goes on to its failure: so few bytes do not wait for who receives them.
    const DRef gathered = Unwrap(session_->Transfer(tensor, 2, 1));
    FailOnRankTwo(*session_);
    ExpectFirstCause(session_->SyncAll());
    ASSERT_EQ(session_->Reset(), OkStatus());
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      for (int i : {0, 20, 49}) EXPECT_EQ(Get(before[static_cast<size_t>(i)], rank), Value(i));
    }
    EXPECT_EQ(Elements<float>(gathered, 1), std::vector<float>(4, 2.f));
  }
}

// The failure that is found first need not be the first in the program.
TEST_P(FailuresTest, ARankThatIsBehindFailsEarlier) {
  const DRef identity = Function("lockstep.identity");
  const DRef fail = Function("lockstep.fail");
  for (int round = 0; round < 10; ++round) {
    const DRef before = Unwrap(session_->Call(identity, "kept"));
    (void)Unwrap(session_->Call(Function("lockstep.sleep"), 0.02, 1));
    (void)Unwrap(session_->Call(fail, "earlier in the program", 1));
    for (int i = 0; i < 20; ++i) (void)session_->Call(identity, i);
    (void)session_->Call(fail, "earlier in time", 2);
    EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("earlier in"));
    ASSERT_EQ(session_->Reset(), OkStatus());
    for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_EQ(Get(before, rank), Value("kept"));
    ExpectWorks(*session_);
  }
}

// Rank 0 waits for rank 1 in a command before the one at which rank 2 has failed. That it waits in
// vain is known only when the client has reset the session long since.
TEST_P(FailuresTest, AFailureThatIsOlderThanTheResetStillWakesWhoWaits) {
  const DRef tensor = FullOfRank({4});
  const std::string file = ::testing::TempDir() + "rank_1_is_behind";
  std::ofstream(file).close();
  const DRef stall = Unwrap(
      session_->GetFunction(Unwrap(session_->LoadModule("test_module.so")), "stall_while_exists"));
  const DRef name = Unwrap(session_->Call(Function("lockstep.identity"), ""));
  EXPECT_OK(session_->DebugSet(name, 1, Value(file)));
  const auto begin = Deadline::Clock::now();
  (void)Unwrap(session_->Call(stall, name));
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "behind", 1));
  (void)session_->AllReduce(tensor, Reduction::kSum, {.team = {0, 1}});
  FailOnRankTwo(*session_);
  ExpectFirstCause(session_->SyncAll());
  std::thread release([&file] {
    std::this_thread::sleep_for(300ms);  // the reset waits by then
    std::filesystem::remove(file);
  });
  const Status reset = session_->Reset();
  release.join();
  ASSERT_EQ(reset, OkStatus());
  ExpectWorks(*session_);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

// It meets each of them in its turn, and with each the collectives that its peers have given up.
TEST_P(FailuresTest, SeveralResetsWhileARankIsBehindAreTakenInByIt) {
  const auto begin = Deadline::Clock::now();
  SessionOptions options = Options();
  options.timeout = 300ms;
  Session impatient = Open(SharedCluster(GetParam()), options);
  const DRef tensor =
      Unwrap(impatient.Call(Function(impatient, "lockstep.full"), Shape{4}, 1.0, DType::kFloat32));
  Stall(impatient, 2.2, 1);
  for (int i = 0; i < 3; ++i) {
    (void)impatient.AllReduce(tensor, Reduction::kSum);
    EXPECT_FALSE(impatient.SyncAll().ok());
    EXPECT_FALSE(impatient.Reset().ok()) << "rank 1 has not come to it";
  }
  ExpectWorks(*session_);
  Status status = impatient.Reset();
  while (!status.ok() && Deadline::Clock::now() - begin < 2 * kQuick) status = impatient.Reset();
  EXPECT_OK(status);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
  EXPECT_OK(impatient.Close());
}

TEST_P(FailuresTest, NamesDroppedInAFailedSessionAreFreed) {
  DRef dropped = Call("lockstep.identity", 1);
  const RegisterId id = dropped.id();
  EXPECT_OK(session_->SyncAll());
  FailOnRankTwo(*session_);
  EXPECT_FALSE(session_->SyncAll().ok());
  dropped = DRef();
  EXPECT_OK(session_->Reset());
  (void)Unwrap(session_->Call(Function("lockstep.identity"), Named(id)));
  EXPECT_EQ(session_->SyncAll().code(), StatusCode::kNotFound);
}

TEST_P(FailuresTest, ManyFailuresAndResetsInARow) {
  const DRef tensor = FullOfRank({64});
  EXPECT_OK(session_->SyncAll());
  for (int i = 0; i < 20; ++i) {
    FailOnRankTwo(*session_);
    (void)session_->AllReduce(tensor, Reduction::kSum, {.in_group = i % 2 == 0});
    ExpectFirstCause(session_->SyncAll());
    ASSERT_EQ(session_->Reset(), OkStatus());
    ExpectWorks(*session_);
  }
}

TEST_P(FailuresTest, ResetEndsWorkThatHasNotFailed) {
  const auto begin = Deadline::Clock::now();
  (void)Unwrap(session_->Call(Function("lockstep.sleep"), 3600.0));
  EXPECT_OK(session_->Reset());
  ExpectWorks(*session_);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

// The first reset leaves rank 0 to what it executes before the failing command.
TEST_P(FailuresTest, ASecondResetEndsWhatRunsBelowTheFailingCommand) {
  const auto begin = Deadline::Clock::now();
  SessionOptions options = Options();
  options.timeout = 300ms;
  Session impatient = Open(SharedCluster(GetParam()), options);
  (void)Unwrap(impatient.Call(Function(impatient, "lockstep.sleep"), 3600.0, 0));
  FailOnRankTwo(impatient);
  ExpectFirstCause(impatient.Sync(2));
  EXPECT_EQ(impatient.Reset().code(), StatusCode::kDeadlineExceeded);
  EXPECT_OK(impatient.Reset());
  ExpectWorks(impatient);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

TEST_P(FailuresTest, OtherSessionsAreNotDisturbed) {
  Session other = Open(SharedCluster(GetParam()));
  ExpectWorks(other);
  for (int i = 0; i < 5; ++i) {
    const DRef tensor = FullOfRank({64});
    FailOnRankTwo(*session_);
    (void)session_->AllReduce(tensor, Reduction::kSum);
    ExpectWorks(other);
    ExpectFirstCause(session_->SyncAll());
    ExpectWorks(other);
    EXPECT_OK(session_->Reset());
  }
}

// The client waits for the session no more when the failure happens; the other ranks still have to
// get out of their collective, for the other sessions.
TEST_P(FailuresTest, FailureOfASessionThatIsBeingClosedBlocksNobody) {
  for (int i = 0; i < 10; ++i) {
    Session doomed = Open(SharedCluster(GetParam()));
    const DRef rank = Unwrap(doomed.Call(Function(doomed, "lockstep.worker_rank")));
    const DRef tensor =
        Unwrap(doomed.Call(Function(doomed, "lockstep.full"), Shape{3}, rank, DType::kInt64));
    if (i % 2 == 0) (void)Unwrap(doomed.AllReduce(tensor, Reduction::kSum));
    FailOnRankTwo(doomed, 0.01);
    (void)doomed.AllReduce(tensor, Reduction::kSum);
    const auto begin = Deadline::Clock::now();
    (void)doomed.Close();
    ExpectWorks(*session_);
    EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
  }
}

// Ranks 0, 1 and 3 are busy with another session when this one is opened and fails on rank 2: the
// abort reaches them before the session itself does.
TEST_P(FailuresTest, AbortThatOvertakesItsSessionIsNotForgotten) {
  const auto begin = Deadline::Clock::now();
  const DRef sleep = Function("lockstep.sleep");
  for (Rank rank : {0, 1, 3}) (void)Unwrap(session_->Call(sleep, 0.3, rank));
  EXPECT_OK(session_->Flush());
  Session other = Open(SharedCluster(GetParam()));
  const DRef rank = Unwrap(other.Call(Function(other, "lockstep.worker_rank")));
  const DRef tensor =
      Unwrap(other.Call(Function(other, "lockstep.full"), Shape{3}, rank, DType::kInt64));
  FailOnRankTwo(other);
  (void)other.AllReduce(tensor, Reduction::kSum);
  ExpectFirstCause(other.Sync(2));
  EXPECT_OK(other.Close());
  ExpectWorks(*session_);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

TEST_P(FailuresTest, FailureWhileTheWindowIsFullEndsTheWait) {
  const auto begin = Deadline::Clock::now();
  const DRef sleep = Function("lockstep.sleep");
  const DRef function = Function("lockstep.nop");
  FailOnRankTwo(*session_, 0.05);
  (void)session_->Call(sleep, 3600.0, 0);
  const Bytes large{std::string(1 << 20, 'x')};
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = session_->Call(function, large).status();
  ExpectFirstCause(status);
  EXPECT_LT(Deadline::Clock::now() - begin, kQuick);
}

}  // namespace
}  // namespace lockstep::testing
