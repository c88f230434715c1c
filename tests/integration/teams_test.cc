// More teams than there is room for, all in use, beside other sessions.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

constexpr Rank kRanks = 8;

// All subsets of 2 and of 3 ranks, in several orders, each a team of its own: 56 and 168. Every
// rank is in 77 of them.
std::vector<std::vector<Rank>> Teams() {
  std::vector<std::vector<Rank>> teams;
  for (Rank a = 0; a < kRanks; ++a) {
    for (Rank b = a + 1; b < kRanks; ++b) {
      for (const auto& team : {std::vector<Rank>{b, a}, {a, b}}) teams.push_back(team);
      for (Rank c = b + 1; c < kRanks; ++c) {
        for (const auto& team : {std::vector<Rank>{c, a, b}, {a, b, c}, {b, c, a}}) {
          teams.push_back(team);
        }
      }
    }
  }
  return teams;
}

class TeamsTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = kRanks;
    options.worker.arena_bytes = size_t{64} << 20;
    // Room for some fifty communicators.
    options.worker.communicator_bytes = size_t{512} << 10;
    return options;
  }

  // A tensor with 1 << rank in it, on every rank: a sum shows which ranks took part.
  static DRef Bits(Session& session) {
    DRef ref = Unwrap(session.Empty({0}, DType::kUInt8));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_OK(session.DebugSet(ref, rank, HostTensor::Of<int64_t>({1}, {int64_t{1} << rank})));
    }
    return ref;
  }
  static int64_t Element(Session& session, const DRef& ref, Rank rank) {
    const Value value = Unwrap(session.DebugGet(ref, rank));
    return Unwrap(value.As<HostTensor>()->Elements<int64_t>()).at(0);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, TeamsTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kTcpProcesses),
                         NameOf);

// Communicators used to be kept for good: the first session took all room there was, and the first
// collective of the second one failed.
TEST_P(TeamsTest, AllTeamsSeveralTimesRoundWhileOthersWork) {
  constexpr int kRounds = 3;
  const std::vector<std::vector<Rank>> teams = Teams();
  std::atomic<bool> done{false};
  std::thread others([&] {
    do {
      Session other = Open(*cluster_);
      const DRef bits = Bits(other);
      const DRef world = Unwrap(other.AllReduce(bits, Reduction::kSum));
      const DRef group = Unwrap(other.AllReduce(bits, Reduction::kSum, {.in_group = true}));
      EXPECT_EQ(Element(other, world, 3), 0xff);
      EXPECT_EQ(Element(other, group, 6), 0xf0);
      EXPECT_OK(other.Close());
    } while (!done);
  });
  const DRef bits = Bits(*session_);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<DRef> sums;
    for (const auto& team : teams) {
      sums.push_back(Unwrap(session_->AllReduce(bits, Reduction::kSum, {.team = team})));
    }
    for (size_t i = 0; i < teams.size(); ++i) {
      int64_t expected = 0;
      for (const Rank rank : teams[i]) expected |= int64_t{1} << rank;
      EXPECT_EQ(Element(*session_, sums[i], teams[i].back()), expected) << "round " << round;
    }
  }
  done = true;
  others.join();
  EXPECT_OK(session_->SyncAll());
}

// The other ranks run ahead through teams that rank 0 is in and has yet to come to.
TEST_P(TeamsTest, RankThatIsBehindIsCaughtUpWith) {
  const DRef bits = Bits(*session_);
  const DRef sleep = Function("lockstep.sleep");
  std::vector<DRef> sums;
  for (int round = 0; round < 3; ++round) {
    (void)Unwrap(session_->Call(sleep, 0.2, round));
    for (const auto& team : Teams()) {
      sums.push_back(Unwrap(session_->AllReduce(bits, Reduction::kSum, {.team = team})));
    }
  }
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Element(*session_, sums.back(), 7), 0xc0);
}

TEST_P(TeamsTest, FailuresBetweenTeamsLeaveNoRankBehind) {
  const DRef bits = Bits(*session_);
  const DRef fail = Function("lockstep.fail");
  const std::vector<std::vector<Rank>> teams = Teams();
  for (int round = 0; round < 5; ++round) {
    EXPECT_OK(session_->SyncAll());
    for (size_t i = 0; i < teams.size(); ++i) {
      if (i == 100) (void)session_->Call(fail, "on purpose", 2);
      (void)session_->AllReduce(bits, Reduction::kSum, {.team = teams[i]});
    }
    EXPECT_EQ(session_->SyncAll().code(), StatusCode::kInternal);
    EXPECT_OK(session_->Reset());
  }
  const DRef sum = Unwrap(session_->AllReduce(bits, Reduction::kSum, {.team = {7, 1}}));
  EXPECT_EQ(Element(*session_, sum, 1), 0x82);
}

}  // namespace
}  // namespace lockstep::testing
