// Ranks whose tensors lie outside of their arenas go through windows, and all through the same
// ones: as many as the longest part of any rank takes. A rank that counted its own would leave too
// early, and its peers would wait for it until their deadline.
#include "runtime/collective/shm/movements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <vector>

#include "runtime/collective/shm/reductions.h"
#include "tests/unit/runtime/collective/shm/teams.h"

namespace lockstep::collective::shm {
namespace {

using Doubles = std::vector<double>;

// In several windows for rank 1 alone, whose number of windows rank 0 must not miss.
const std::vector<int64_t> kPartCounts = {3, 700'000};
constexpr size_t kAll = 700'003;

// Far more than it takes, and soon enough to be noticed.
Deadline Soon() { return Deadline::After(std::chrono::seconds(8)); }

// The elements of `rank`'s part: what they are tells where they belong.
Doubles DoublesOf(int rank) {
  Doubles part(static_cast<size_t>(kPartCounts[static_cast<size_t>(rank)]));
  std::iota(part.begin(), part.end(), rank * 1e6);
  return part;
}

Doubles AllParts() {
  Doubles all = DoublesOf(0);
  const Doubles more = DoublesOf(1);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Buffer ViewAll(Doubles& elements) { return ViewOf(elements.data(), elements.size()); }

// Runs the operation on both ranks of a team, which then still understand each other.
void OnBoth(const std::function<void(Team&, int rank)>& body) {
  Teams teams(2);
  teams.OnEveryRank([&](int rank) {
    body(teams[rank], rank);
    double mine = rank + 1;
    double sum = 0;
    const Status status = Reductions(teams[rank])
                              .AllReduce(ViewOf(&mine, 1), ViewOf(&sum, 1), ReduceOp::kSum, Soon());
    EXPECT_EQ(status, OkStatus());
    EXPECT_EQ(sum, 3);
  });
}

TEST(WindowsOfUnevenPartsTest, Scatter) {
  for (const Rank root : {0, 1}) {
    OnBoth([&](Team& team, int rank) {
      Doubles send = rank == root ? AllParts() : Doubles();
      Doubles recv(DoublesOf(rank).size());
      const Status status = Movements(team).Scatter(rank == root ? ViewAll(send) : Buffer(),
                                                    ViewAll(recv), kPartCounts, root, Soon());
      ASSERT_EQ(status, OkStatus()) << "root " << root;
      EXPECT_TRUE(recv == DoublesOf(rank));
    });
  }
}

TEST(WindowsOfUnevenPartsTest, Gather) {
  for (const Rank root : {0, 1}) {
    OnBoth([&](Team& team, int rank) {
      Doubles send = DoublesOf(rank);
      Doubles recv(rank == root ? kAll : 0);
      const Status status = Movements(team).Gather(
          ViewAll(send), rank == root ? ViewAll(recv) : Buffer(), kPartCounts, root, Soon());
      ASSERT_EQ(status, OkStatus()) << "root " << root;
      if (rank == root) {
        EXPECT_TRUE(recv == AllParts());
      }
    });
  }
}

TEST(WindowsOfUnevenPartsTest, AllGather) {
  OnBoth([&](Team& team, int rank) {
    Doubles send = DoublesOf(rank);
    Doubles recv(kAll);
    ASSERT_EQ(Movements(team).AllGather(ViewAll(send), ViewAll(recv), kPartCounts, Soon()),
              OkStatus());
    EXPECT_TRUE(recv == AllParts());
  });
}

// Rank 1 gets little, and sends itself much.
TEST(WindowsOfUnevenPartsTest, AllToAll) {
  OnBoth([&](Team& team, int rank) {
    const std::vector<int64_t> from_0 = {1, 5};
    const std::vector<int64_t> from_1 = {700'000, 2};
    const std::vector<int64_t>& send_counts = rank == 0 ? from_0 : from_1;
    const auto me = static_cast<size_t>(rank);
    const std::vector<int64_t> recv_counts = {from_0[me], from_1[me]};
    Doubles send(static_cast<size_t>(send_counts[0] + send_counts[1]), rank + 1);
    Doubles recv(static_cast<size_t>(recv_counts[0] + recv_counts[1]));
    ASSERT_EQ(
        Movements(team).AllToAll(ViewAll(send), send_counts, ViewAll(recv), recv_counts, Soon()),
        OkStatus());
    Doubles expected(static_cast<size_t>(recv_counts[0]), 1);
    expected.resize(recv.size(), 2);
    EXPECT_TRUE(recv == expected);
  });
}

TEST(WindowsOfUnevenPartsTest, ReduceScatter) {
  OnBoth([&](Team& team, int rank) {
    Doubles send = AllParts();
    Doubles recv(DoublesOf(rank).size());
    ASSERT_EQ(Reductions(team).ReduceScatter(ViewAll(send), ViewAll(recv), kPartCounts,
                                             ReduceOp::kMax, Soon()),
              OkStatus());
    EXPECT_TRUE(recv == DoublesOf(rank));
  });
}

// Each rank writes a slice of it to all, if all say that it is large enough for that: they may see
// caches of different sizes. Else each copies it for itself.
TEST(SharedBroadcastTest, AllDoTheSameAlsoWhereTheyWouldNotAlone) {
  constexpr size_t kCount = 10'007;  // no multiple of the ranks
  constexpr size_t kNever = size_t{1} << 40;
  Teams teams(3);
  const std::vector<std::vector<size_t>> cases = {{1, 1, 1}, {1, kNever, 1}, {kNever, 1, kNever}};
  for (const std::vector<size_t>& least_shared_bytes : cases) {
    for (const Rank root : {0, 1, 2}) {
      teams.OnEveryRank([&](int rank) {
        auto storage = teams.arena(rank).Allocate(kCount * sizeof(double));
        ASSERT_TRUE(storage.ok()) << storage.status();
        auto* const elements = static_cast<double*>((*storage)->data());
        std::iota(elements, elements + kCount, rank * 1e6);
        const Buffer recv = ViewOf(elements, kCount);
        const Status status = Movements(teams[rank], least_shared_bytes[static_cast<size_t>(rank)])
                                  .Broadcast(rank == root ? recv : Buffer(), recv, root, Soon());
        ASSERT_EQ(status, OkStatus());
        Doubles expected(kCount);
        std::iota(expected.begin(), expected.end(), root * 1e6);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), elements)) << rank << ' ' << root;
      });
    }
  }
}

}  // namespace
}  // namespace lockstep::collective::shm
