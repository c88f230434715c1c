// Communicators made from communicators, and long mixed sequences on several of them.
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using GroupsTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(GroupsTest);

// The sum of `rank` over the members, by a real allreduce.
int64_t SumOfRanks(Communicator& comm, int64_t own) {
  int64_t sum = own;
  const Status status =
      comm.AllReduce(ViewOf(&own, 1), ViewOf(&sum, 1), ReduceOp::kSum, Patience());
  EXPECT_TRUE(status.ok()) << status;
  return sum;
}

TEST_P(GroupsTest, EverySubsetInReverseOrder) {
  OnEveryRank([](RankUnderTest& self) {
    for (unsigned mask = 1; mask < 1u << std::min(self.size(), 4); ++mask) {
      std::vector<Rank> team;
      for (Rank r = self.size() - 1; r >= 0; --r) {
        if ((mask >> r & 1) != 0 && r < 32) team.push_back(r);
      }
      const auto mine = std::find(team.begin(), team.end(), self.rank());
      if (mine == team.end()) continue;
      auto comm = self.comm.Split(team, mask, Patience());
      ASSERT_TRUE(comm.ok()) << comm.status();
      EXPECT_EQ((*comm)->size(), static_cast<int>(team.size()));
      EXPECT_EQ((*comm)->rank(), mine - team.begin());
      EXPECT_TRUE(std::equal(team.begin(), team.end(), (*comm)->members().begin()));
      int64_t expected = 0;
      for (Rank r : team) expected += r;
      EXPECT_EQ(SumOfRanks(**comm, self.rank()), expected);
    }
  });
}

TEST_P(GroupsTest, TheSameTeamAgainUnderTheSameTag) {
  OnEveryRank([rounds = splits() / 2](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    for (int round = 0; round < rounds; ++round) {
      auto comm = self.comm.Split(all, 7, Patience());
      ASSERT_TRUE(comm.ok()) << round << ": " << comm.status();
      EXPECT_EQ(SumOfRanks(**comm, 1), self.size());
      // The tag may be used again once no rank holds the old communicator.
      const Status last = (*comm)->Barrier(Patience());
      ASSERT_TRUE(last.ok()) << round << ": " << last;
      comm->reset();
      ASSERT_TRUE(self.comm.Barrier(Patience()).ok());
    }
  });
}

// A rank that is through with all of its operations may close, however far the others are.
TEST_P(GroupsTest, ARankThatIsThroughLeavesBeforeTheOthersAre) {
  if (size() < 2) GTEST_SKIP() << "one rank is through when all are";
  OnEveryRank([rounds = splits()](RankUnderTest& self) {
    std::vector<Rank> all;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    for (int round = 0; round < rounds; ++round) {
      auto comm = self.comm.Split(all, static_cast<uint64_t>(round), Patience());
      ASSERT_TRUE(comm.ok()) << round << ": " << comm.status();
      EXPECT_EQ(SumOfRanks(**comm, 1), self.size());
      int64_t word = round;
      Status status;
      if (self.rank() == 0) status = (*comm)->Send(ViewOf(&word, 1), 1, Patience());
      if (self.rank() == 1) status = (*comm)->Recv(ViewOf(&word, 1), 0, Patience());
      ASSERT_TRUE(status.ok()) << round << ": " << status;
    }
  });
}

// Rank 0 closes its communicators with rank 1, which is slow to do so, and makes more with rank 2
// than there is room for until then.
TEST_P(GroupsTest, RoomThatARankBehindStillHoldsIsWaitedFor) {
  if (size() < 3) GTEST_SKIP() << "it takes a rank that is behind, and one that is not";
  constexpr uint64_t kMany = 70;
  OnEveryRank([](RankUnderTest& self) {
    std::vector<std::unique_ptr<Communicator>> held;
    const auto make = [&](Rank other, uint64_t tag) {
      auto comm = self.comm.Split({0, other}, tag, Patience());
      ASSERT_TRUE(comm.ok()) << tag << ": " << comm.status();
      held.push_back(*std::move(comm));
    };
    if (self.rank() <= 1) {
      for (uint64_t i = 0; i < kMany; ++i) make(1, i);
    }
    // Not to order anything: it gives rank 0 the time to run into the wall.
    if (self.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.clear();
    if (self.rank() == 0 || self.rank() == 2) {
      for (uint64_t i = 0; i < kMany; ++i) make(2, kMany + i);
    }
    ASSERT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

TEST_P(GroupsTest, BadTeamsAreRefused) {
  OnEveryRank([](RankUnderTest& self) {
    const auto code = [&](std::vector<Rank> team) {
      return self.comm.Split(team, 1, Patience()).status().code();
    };
    EXPECT_EQ(code({}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code({self.rank(), self.rank()}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code({self.rank(), self.size()}), StatusCode::kInvalidArgument);
    EXPECT_EQ(code({-1, self.rank()}), StatusCode::kInvalidArgument);
  });
}

// Every rank draws the same random program and checks each step.
TEST_P(GroupsTest, RandomProgramsOnInterleavedCommunicators) {
  OnEveryRank([](RankUnderTest& self) {
    std::vector<Rank> all;
    std::vector<Rank> half;
    for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
    for (Rank r = self.rank() % 2; r < self.size(); r += 2) half.push_back(r);
    auto second = self.comm.Split(all, 21, Patience());
    auto parity = self.comm.Split(half, 22, Patience());
    ASSERT_TRUE(second.ok() && parity.ok()) << second.status() << parity.status();
    Communicator* const comms[] = {&self.comm, second->get(), parity->get()};

    std::mt19937 random(4711);
    for (int step = 0; step < 400; ++step) {
      Communicator& comm = *comms[random() % 3];
      const size_t count = random() % 3 == 0 ? random() % 40'000 : random() % 300;
      const unsigned kind = random() % 4;
      const auto ranks = static_cast<size_t>(comm.size());
      const std::vector<int64_t> counts(ranks, static_cast<int64_t>(count));
      // Groups of different size draw differently, so the root comes from a number all share.
      const Rank root = static_cast<Rank>(random() % 64 % ranks);
      TestBuffer send(&self.allocator, DType::kInt32, count);
      send.Fill([&](size_t i) { return Label(comm.rank() + step, i); });
      Status status;
      if (kind == 0) {
        TestBuffer recv(&self.allocator, DType::kInt32, count);
        status = comm.AllReduce(send.buffer(), recv.buffer(), ReduceOp::kSum, Patience());
        ExpectElements(
            recv,
            [&](size_t i) {
              double sum = 0;
              for (int r = 0; r < comm.size(); ++r) sum += Label(r + step, i);
              return sum;
            },
            0, "allreduce");
      } else if (kind == 1) {
        TestBuffer recv(&self.allocator, DType::kInt32, count * ranks);
        status = comm.AllGather(send.buffer(), recv.buffer(), counts, Patience());
        ExpectElements(
            recv, [&](size_t i) { return Label(static_cast<int>(i / count) + step, i % count); }, 0,
            "allgather");
      } else if (kind == 2) {
        TestBuffer recv(&self.allocator, DType::kInt32, count);
        status = comm.Broadcast(comm.rank() == root ? ConstBuffer(send.buffer()) : ConstBuffer(),
                                recv.buffer(), root, Patience());
        ExpectElements(
            recv, [&](size_t i) { return Label(root + step, i); }, 0, "broadcast");
      } else {
        status = comm.Barrier(Patience());
      }
      ASSERT_TRUE(status.ok()) << "step " << step << ": " << status;
    }
  });
}

}  // namespace
}  // namespace lockstep::collective
