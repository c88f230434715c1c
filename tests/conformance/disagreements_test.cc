// Ranks that disagree about what they do.
#include <chrono>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using DisagreementsTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(DisagreementsTest);

// Far from any deadline of these tests.
constexpr auto kSoon = std::chrono::seconds(30);

std::vector<Rank> AllRanks(const RankUnderTest& self) {
  std::vector<Rank> all;
  for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
  return all;
}

// Some ranks call `different`, the others `usual`; every rank gets an error that shows both.
void ExpectDisagreement(RankUnderTest& self, uint64_t tag,
                        const std::function<Status(Communicator&)>& usual,
                        const std::function<Status(Communicator&)>& different,
                        const std::vector<std::string>& shown) {
  // The last rank alone; then every other rank, which is a whole node where there are two.
  for (const bool every_other : {false, true}) {
    auto comm = self.comm.Split(AllRanks(self), 2 * tag + (every_other ? 1 : 0), Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    const bool differs = every_other ? self.rank() % 2 == 1 : self.rank() == self.size() - 1;
    const auto begin = Deadline::Clock::now();
    const Status status = differs ? different(**comm) : usual(**comm);
    EXPECT_LT(Deadline::Clock::now() - begin, kSoon) << status;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    for (const std::string& part : shown) {
      EXPECT_NE(Message(status).find(part), std::string::npos) << status << " lacks " << part;
    }
    // Unusable from now on, with the same error; the parent is as good as before.
    EXPECT_EQ((*comm)->Barrier(Patience()), status);
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  }
}

TEST_P(DisagreementsTest, RanksThatDisagreeAreTold) {
  if (size() < 2) GTEST_SKIP() << "one rank cannot disagree with itself";
  OnEveryRank([](RankUnderTest& self) {
    std::vector<float> f(5000);
    std::vector<int32_t> n(5000);
    const auto reduce = [&](size_t count, ReduceOp op) {
      return [&f, count, op](Communicator& comm) {
        return comm.AllReduce(ViewOf(f.data(), count), ViewOf(f.data(), count), op, Patience());
      };
    };
    const auto broadcast = [&](Rank root) {
      return [&f, root](Communicator& comm) {
        return comm.Broadcast(ViewOf(f.data(), 9), ViewOf(f.data(), 9), root, Patience());
      };
    };
    const std::string last = std::to_string(self.size() - 1);
    ExpectDisagreement(self, 1, reduce(3, ReduceOp::kSum), reduce(4, ReduceOp::kSum),
                       {"allreduce sum of 3 float32", "allreduce sum of 4 float32"});
    ExpectDisagreement(self, 2, reduce(3, ReduceOp::kSum), reduce(5000, ReduceOp::kSum),
                       {"3 float32", "5000 float32"});
    ExpectDisagreement(self, 3, reduce(5, ReduceOp::kSum), reduce(5, ReduceOp::kMax),
                       {"sum", "max"});
    ExpectDisagreement(self, 4, reduce(5, ReduceOp::kSum),
                       [&](Communicator& comm) {
                         return comm.AllReduce(ViewOf(n.data(), 5), ViewOf(n.data(), 5),
                                               ReduceOp::kSum, Patience());
                       },
                       {"float32", "int32"});
    ExpectDisagreement(self, 5, broadcast(0), broadcast(self.size() - 1),
                       {"from rank 0", "from rank " + last});
    ExpectDisagreement(self, 6, reduce(5, ReduceOp::kSum),
                       [](Communicator& comm) { return comm.Barrier(Patience()); },
                       {"allreduce", "barrier"});
  });
}

// Operations that take different ways through a communicator of several levels.
TEST_P(DisagreementsTest, AlsoOverOperationsOfOtherKinds) {
  if (size() < 2) GTEST_SKIP() << "one rank cannot disagree with itself";
  OnEveryRank([](RankUnderTest& self) {
    const auto size = static_cast<size_t>(self.size());
    std::vector<float> f(5000);
    std::vector<int32_t> n(5000);
    std::vector<int32_t> out(size);
    const std::vector<int64_t> ones(size, 1);
    const auto average_floats = [&](Communicator& comm) {
      return comm.AllReduce(ViewOf(f.data(), 5000), ViewOf(f.data(), 5000), ReduceOp::kAvg,
                            Patience());
    };
    const auto average_integers = [&](Communicator& comm) {
      return comm.AllReduce(ViewOf(n.data(), 5000), ViewOf(n.data(), 5000), ReduceOp::kAvg,
                            Patience());
    };
    const auto reduce_integers = [&](Communicator& comm) {
      return comm.Reduce(ViewOf(n.data(), 3), ViewOf(n.data(), 3), ReduceOp::kAvg, 0, Patience());
    };
    const auto scatter_integers = [&](Communicator& comm) {
      return comm.ReduceScatter(ViewOf(n.data(), size), ViewOf(out.data(), 1), ones, ReduceOp::kAvg,
                                Patience());
    };
    const auto exchange = [&](Communicator& comm) {
      return comm.AllToAll(ViewOf(n.data(), size), ones, ViewOf(out.data(), size), ones,
                           Patience());
    };
    const auto barrier = [](Communicator& comm) { return comm.Barrier(Patience()); };
    ExpectDisagreement(self, 1, average_floats, average_integers,
                       {"allreduce avg of 5000 float32", "allreduce avg of 5000 int32"});
    ExpectDisagreement(self, 2, average_integers, exchange,
                       {"allreduce avg of 5000 int32", "all-to-all of int32"});
    ExpectDisagreement(self, 3, exchange, average_floats,
                       {"all-to-all of int32", "allreduce avg of 5000 float32"});
    ExpectDisagreement(self, 4, barrier, exchange, {"barrier", "all-to-all of int32"});
    ExpectDisagreement(self, 5, reduce_integers, scatter_integers,
                       {"reduce avg of 3 int32 to rank 0", "reduce-scatter avg"});
  });
}

TEST_P(DisagreementsTest, RanksThatDisagreeAboutPartsAreTold) {
  if (size() < 2) GTEST_SKIP() << "one rank cannot disagree with itself";
  OnEveryRank([](RankUnderTest& self) {
    const auto size = static_cast<size_t>(self.size());
    std::vector<int32_t> in(2 * size);
    std::vector<int32_t> out(2 * size);
    // The totals are equal; whose part is the longer one is not.
    const auto gather = [&](size_t longer) {
      return [&, longer](Communicator& comm) {
        std::vector<int64_t> counts(size, 1);
        counts[longer] = 2;
        const auto mine = static_cast<size_t>(counts[static_cast<size_t>(comm.rank())]);
        return comm.AllGather(ViewOf(in.data(), mine), ViewOf(out.data(), size + 1), counts,
                              Patience());
      };
    };
    ExpectDisagreement(self, 1, gather(0), gather(size - 1), {"allgather", "parts of [2, 1", "2]"});
    const auto exchange = [&](int64_t to_first) {
      return [&, to_first](Communicator& comm) {
        const std::vector<int64_t> received(size, 1);
        std::vector<int64_t> sent(size, 1);
        sent[0] = to_first;
        return comm.AllToAll(ViewOf(in.data(), size - 1 + static_cast<size_t>(to_first)), sent,
                             ViewOf(out.data(), size), received, Patience());
      };
    };
    ExpectDisagreement(self, 2, exchange(1), exchange(2),
                       {"sends 2 elements to rank 0, which expects 1"});
  });
}

TEST_P(DisagreementsTest, AMessageThatDoesNotFitIsRefusedOnBothSides) {
  if (size() < 2) GTEST_SKIP() << "there is no rank to send to";
  OnEveryRank([](RankUnderTest& self) {
    auto comm = self.comm.Split(AllRanks(self), 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    std::vector<float> data(101);
    if (self.rank() < 2) {
      const Status status = self.rank() == 0
                                ? (*comm)->Send(ViewOf(data.data(), 100), 1, Patience())
                                : (*comm)->Recv(ViewOf(data.data(), 101), 0, Patience());
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
      EXPECT_NE(
          Message(status).find("rank 0 sends 100 float32 to rank 1, which expects 101 float32"),
          std::string::npos)
          << status;
    }
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

}  // namespace
}  // namespace lockstep::collective
