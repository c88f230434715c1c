// Memory and threads that cannot be had.
#include <pthread.h>

#include <chrono>

#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

using ResourcesTest = ConformanceTest;
LOCKSTEP_CONFORMANCE_SUITE(ResourcesTest);

std::vector<Rank> AllRanks(const RankUnderTest& self) {
  std::vector<Rank> all;
  for (Rank r = 0; r < self.size(); ++r) all.push_back(r);
  return all;
}

// No machine has this much memory, and no rank gets as far as touching it.
constexpr int64_t kTooMuch = int64_t{1} << 56;

TEST_P(ResourcesTest, MemoryThatCannotBeHadIsAnErrorOnEveryRank) {
  if (GetParam().backend.name.rfind("shm", 0) == 0) GTEST_SKIP() << "it works window by window";
  OnEveryRank([](RankUnderTest& self) {
    auto comm = self.comm.Split(AllRanks(self), 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    std::vector<int64_t> counts(static_cast<size_t>(self.size()), 0);
    counts[0] = kTooMuch;
    int8_t start = 0;
    const Buffer mine{&start, self.rank() == 0 ? static_cast<size_t>(kTooMuch) : 0, DType::kInt8};
    const ConstBuffer all{&start, static_cast<size_t>(kTooMuch), DType::kInt8};
    const Status status = (*comm)->ReduceScatter(all, mine, counts, ReduceOp::kSum, Patience());
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
    EXPECT_NE(Message(status).find("there is no memory for the"), std::string::npos) << status;
    EXPECT_EQ((*comm)->Barrier(Patience()), status);
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

// A ring in which every rank has one neighbour in its node and one in the other.
TEST_P(ResourcesTest, AThreadThatCannotBeStartedIsAnError) {
  if (GetParam().backend.name.rfind("two_level", 0) != 0 || size() != 4 || !ranks_are_processes()) {
    GTEST_SKIP() << "no rank starts a thread, or its limits are those of other ranks too";
  }
  OnEveryRank([](RankUnderTest& self) {
    auto comm = self.comm.Split(AllRanks(self), 1, Patience());
    ASSERT_TRUE(comm.ok()) << comm.status();
    pthread_attr_t usual;
    ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
    pthread_attr_t starved = usual;
    ASSERT_EQ(pthread_attr_setstacksize(&starved, size_t{1} << 50), 0);
    ASSERT_EQ(pthread_setattr_default_np(self.rank() == 0 ? &starved : &usual), 0);

    constexpr Rank kNext[] = {1, 3, 0, 2};
    constexpr Rank kPrevious[] = {2, 0, 3, 1};
    const auto i = static_cast<size_t>(self.rank());
    std::vector<float> in(100'000);
    std::vector<float> out(in.size());
    const auto begin = Deadline::Clock::now();
    const Status status =
        (*comm)->SendRecv(ViewOf(in.data(), in.size()), kNext[i], ViewOf(out.data(), out.size()),
                          kPrevious[i], Patience());
    EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(30)) << status;
    if (self.rank() == 0) {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
      EXPECT_NE(Message(status).find("rank 0 cannot start the thread"), std::string::npos)
          << status;
      ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
    }
    const bool beside = kNext[i] == 0 || kPrevious[i] == 0;
    EXPECT_FALSE(beside && status.ok()) << "rank 0 neither sends nor receives";
    EXPECT_TRUE(self.comm.Barrier(Patience()).ok());
  });
}

}  // namespace
}  // namespace lockstep::collective
