// What tests of clusters over several hosts have in common.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/hosts/netns_cluster.h"

namespace lockstep::testing {

class HostsFixture : public ::testing::Test {
 public:
  // A tensor with the rank in each of its elements, summed up over all ranks.
  static StatusOr<DRef> SumOfRanks(Session& session, int64_t elements) {
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session.GetFunction("lockstep.full"));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef rank_of, session.GetFunction("lockstep.worker_rank"));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef rank, session.Call(rank_of));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef x,
                              session.Call(full, Shape{elements}, rank, DType::kFloat32));
    return session.AllReduce(x, Reduction::kSum);
  }
  // Reads the sum on all ranks; OK if it is right on each.
  static Status CheckSum(Session& session, const DRef& sum, int workers) {
    const auto expected = static_cast<float>(workers * (workers - 1) / 2);
    for (Rank rank = 0; rank < workers; ++rank) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Value value, session.DebugGet(sum, rank));
      LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> elements,
                                value.As<HostTensor>()->Elements<float>());
      for (const float element : elements) {
        if (element == expected) continue;
        return Internal("the sum on rank ", rank, " is ", element, ", not ", expected);
      }
    }
    return OkStatus();
  }

 protected:
  void SetUp() override {
    const std::string why_not = support::VirtualHosts::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }

  // Small and large, in one session.
  static void ExpectSumOfRanks(NetnsCluster& cluster) {
    auto session = cluster.Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    for (const int64_t elements : {3, 100'000}) {
      const auto sum = SumOfRanks(*session, elements);
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(CheckSum(*session, *sum, cluster.workers()), OkStatus());
    }
  }
};

}  // namespace lockstep::testing
