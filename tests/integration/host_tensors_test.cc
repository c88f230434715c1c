// Host tensors: filled where worker-0 has them, handed over, dealt out, and read again; where the
// client cannot map worker-0's memory, the same by copies.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/plan/layout.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

enum class Memory { kShared, kApart };

class HostTensorsTest : public ::testing::TestWithParam<std::tuple<ClusterKind, Memory>> {
 protected:
  static constexpr int64_t kCount = 300'000;  // beyond what travels in messages and flat slots
  static constexpr size_t kArenaBytes = size_t{16} << 20;

  void SetUp() override {
    const auto [kind, memory] = GetParam();
    const std::string why_not = WhyNot(kind);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ClusterOptions options;
    options.workers = 3;
    options.worker.arena_bytes = kArenaBytes;
    auto cluster = Cluster::Start(kind, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = std::move(*cluster);
    session_ = Connect();
  }
  std::unique_ptr<Session> Connect() {
    SessionOptions options;
    options.map_memory = std::get<Memory>(GetParam()) == Memory::kShared;
    auto session = cluster_->Connect(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return std::make_unique<Session>(std::move(*session));
  }
  template <typename T>
  static T Unwrap(StatusOr<T> value) {
    if (!value.ok()) {
      ADD_FAILURE() << value.status();
      std::abort();
    }
    return std::move(*value);
  }
  // `first`, `first` + 1, ...
  SharedTensor Numbers(int32_t first, int64_t count = kCount) {
    SharedTensor tensor = Unwrap(session_->MakeHostTensor({count}, DType::kInt32));
    const auto elements = Unwrap(tensor.Elements<int32_t>());
    std::iota(elements.begin(), elements.end(), first);
    return tensor;
  }
  static std::vector<int32_t> Iota(int32_t first, int64_t count) {
    std::vector<int32_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }
  static std::vector<int32_t> In(const SharedTensor& tensor) {
    const auto elements = Unwrap(tensor.Elements<int32_t>());
    return {elements.begin(), elements.end()};
  }
  std::vector<int32_t> Elements(const DRef& ref, Rank rank) {
    const Value value = Unwrap(session_->DebugGet(ref, rank));
    return Unwrap(value.As<HostTensor>()->Elements<int32_t>());
  }
  // Whether memory is lent here: workers with GPUs lend none, and other hosts cannot.
  bool IsLent() { return Unwrap(session_->MakeHostTensor({1}, DType::kUInt8)).is_lent(); }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Session> session_;
};
INSTANTIATE_TEST_SUITE_P(Clusters, HostTensorsTest,
                         ::testing::Combine(::testing::ValuesIn(AllKinds()),
                                            ::testing::Values(Memory::kShared, Memory::kApart)),
                         [](const ::testing::TestParamInfo<std::tuple<ClusterKind, Memory>>& info) {
                           return NameOf({std::get<0>(info.param), 0}) +
                                  (std::get<1>(info.param) == Memory::kShared ? "Shared" : "Apart");
                         });

TEST_P(HostTensorsTest, HandedOverItIsARegisterOfWorker0) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1000}, kCount}) {
    SharedTensor tensor = Numbers(5, count);
    EXPECT_EQ(tensor.shape(), Shape({count}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    const DRef ref = Unwrap(session_->MoveToWorker0(std::move(tensor)));
    EXPECT_TRUE(tensor.IsNull());  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_EQ(Elements(ref, 0), Iota(5, count));
    EXPECT_EQ(session_->DebugGet(ref, 1).status().code(), StatusCode::kNotFound);
    EXPECT_OK(session_->Reset());
  }
}

TEST_P(HostTensorsTest, WhatWasHandedOverIsNotHandedOverAgain) {
  SharedTensor tensor = Numbers(1, 4);
  EXPECT_OK(session_->MoveToWorker0(std::move(tensor)).status());
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(session_->MoveToWorker0(std::move(tensor)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->BroadcastFromWorker0(std::move(tensor)).status().code(),
            StatusCode::kInvalidArgument);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_OK(session_->SyncAll());
}

TEST_P(HostTensorsTest, ABroadcastGivesEachRankElementsOfItsOwn) {
  const DRef all = Unwrap(session_->BroadcastFromWorker0(Numbers(7)));
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(Elements(all, rank), Iota(7, kCount));
  // What one rank writes is not seen by another.
  EXPECT_OK(session_->DebugSet(all, 1, HostTensor::Of<int32_t>({2}, {{8, 9}})));
  EXPECT_EQ(Elements(all, 0), Iota(7, kCount));
  EXPECT_OK(session_->CopyToWorker0(all, ViewOf(Iota(1, kCount).data(), size_t{kCount})));
  EXPECT_EQ(Elements(all, 0), Iota(1, kCount));
  EXPECT_EQ(Elements(all, 2), Iota(7, kCount));
}

TEST_P(HostTensorsTest, ABroadcastIntoADestinationCopiesToAllRanks) {
  const DRef target = Unwrap(session_->Empty({kCount}, DType::kInt32));
  const DRef all = Unwrap(session_->BroadcastFromWorker0(Numbers(3), {.destination = target}));
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(Elements(target, rank), Iota(3, kCount));
  EXPECT_EQ(all.id(), target.id());
}

TEST_P(HostTensorsTest, AScatterDealsOutItsRowsAndAGatherBringsThemBack) {
  const DRef parts = Unwrap(session_->ScatterFromWorker0(Numbers(0)));
  EXPECT_EQ(Elements(parts, 0), Iota(0, kCount / 3));
  EXPECT_EQ(Elements(parts, 2), Iota(kCount / 3 * 2, kCount / 3));
  const SharedTensor back =
      Unwrap(session_->MoveFromWorker0(Unwrap(session_->GatherToWorker0(parts))));
  EXPECT_EQ(back.dtype(), DType::kInt32);
  EXPECT_EQ(back.shape(), Shape({kCount}));
  EXPECT_EQ(In(back), Iota(0, kCount));
}

TEST_P(HostTensorsTest, OptionsThatAreRefusedLeaveItWhereItIs) {
  SharedTensor tensor = Numbers(4, 8);
  EXPECT_EQ(session_->BroadcastFromWorker0(std::move(tensor), {.team = {0, 9}}).status().code(),
            StatusCode::kInvalidArgument);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(In(tensor), Iota(4, 8));
  const DRef both = Unwrap(session_->BroadcastFromWorker0(std::move(tensor), {.team = {0, 2}}));
  EXPECT_EQ(Elements(both, 2), Iota(4, 8));
}

TEST_P(HostTensorsTest, PlacedItLiesByTheLayout) {
  const auto layout = Unwrap(plan::Layout::Make(
      {kCount}, DType::kInt32, Unwrap(plan::Mesh::Line({2, 0})), {plan::Placement::Shard(0)}));
  const DRef placed = Unwrap(session_->Place(Numbers(9), layout));
  EXPECT_EQ(Elements(placed, 2), Iota(9, kCount / 2));
  EXPECT_EQ(Unwrap(session_->LayoutOf(placed)), layout);
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(placed)).Elements<int32_t>()), Iota(9, kCount));
}

TEST_P(HostTensorsTest, WhatIsTakenFromWorker0CanBeHandedBack) {
  const DRef ref = Unwrap(session_->MoveToWorker0(Numbers(1, 1000)));
  SharedTensor taken = Unwrap(session_->MoveFromWorker0(ref));
  Unwrap(taken.Elements<int32_t>())[0] = 17;
  const DRef again = Unwrap(session_->MoveToWorker0(std::move(taken)));
  EXPECT_EQ(Elements(again, 0)[0], 17);
  EXPECT_EQ(Elements(again, 0)[1], 2);
}

TEST_P(HostTensorsTest, ToReadATensorLeavesItsLayout) {
  const auto layout = Unwrap(plan::Layout::Make(
      {kCount}, DType::kInt32, Unwrap(plan::Mesh::Line({0, 1})), {plan::Placement::Shard(0)}));
  const DRef placed = Unwrap(session_->Place(Numbers(2), layout));
  SharedTensor taken = Unwrap(session_->MoveFromWorker0(placed));
  EXPECT_EQ(In(taken), Iota(2, kCount / 2));
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(placed)).Elements<int32_t>()), Iota(2, kCount));
}

// A failed command may have left nothing in the register.
TEST_P(HostTensorsTest, WhatWasTakenBeforeAResetIsHandedBackByACopy) {
  const DRef kept = Unwrap(session_->MoveToWorker0(Numbers(3)));
  SharedTensor taken = Unwrap(session_->MoveFromWorker0(kept));
  EXPECT_OK(session_->DebugSet(kept, 0, Value("something else")));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Elements(Unwrap(session_->MoveToWorker0(std::move(taken))), 0), Iota(3, kCount));
}

TEST_P(HostTensorsTest, WhatOtherNamesHaveIsNotGivenAway) {
  const DRef kept = Unwrap(session_->MoveToWorker0(Numbers(1)));
  std::vector<int32_t> read(size_t{kCount});
  EXPECT_OK(session_->CopyFromWorker0({read.data(), read.size(), DType::kInt32}, kept));
  const DRef all = Unwrap(session_->BroadcastFromWorker0(Unwrap(session_->MoveFromWorker0(kept))));
  EXPECT_EQ(Elements(kept, 0), Iota(1, kCount));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->CopyToWorker0(kept, ViewOf(Iota(5, kCount).data(), size_t{kCount})));
  EXPECT_EQ(Elements(kept, 0), Iota(5, kCount));
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(Elements(all, rank), Iota(1, kCount));
}

// More than the arena holds, were any of it kept.
TEST_P(HostTensorsTest, WhatIsTakenOfARegisterThatStaysIsFreed) {
  constexpr int64_t kLarge = int64_t{3} << 20;
  const DRef kept = Unwrap(session_->Empty({1}, DType::kUInt8, 0));
  for (int step = 0; step < 8; ++step) {
    const HostTensor next{DType::kUInt8, {kLarge}, std::string(size_t{kLarge}, 'x')};
    EXPECT_OK(session_->DebugSet(kept, 0, next));
    const SharedTensor taken = Unwrap(session_->MoveFromWorker0(kept));
    EXPECT_EQ(static_cast<const char*>(taken.data())[kLarge - 1], 'x');
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(HostTensorsTest, WhatIsDroppedIsFreed) {
  for (int i = 0; i < 8; ++i) {
    const SharedTensor dropped =
        Unwrap(session_->MakeHostTensor({int64_t{6} << 20}, DType::kUInt8));
    const DRef handed_over = Unwrap(session_->MoveToWorker0(Numbers(1)));
  }
}

TEST_P(HostTensorsTest, ElementsOutliveAResetTheSessionAndTheCluster) {
  SharedTensor kept = Numbers(2);
  EXPECT_OK(session_->Reset());
  const DRef ref = Unwrap(session_->MoveToWorker0(std::move(kept)));
  EXPECT_EQ(Elements(ref, 0), Iota(2, kCount));

  kept = Numbers(3);
  EXPECT_OK(session_->Close());
  EXPECT_EQ(session_->MakeHostTensor({1}, DType::kUInt8).status().code(),
            StatusCode::kFailedPrecondition);
  // No other session's data comes to where this one's still is.
  session_ = Connect();
  std::vector<DRef> others;
  for (int i = 0; i < 8; ++i) others.push_back(Unwrap(session_->MoveToWorker0(Numbers(100))));
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(In(kept), Iota(3, kCount));
  std::fill_n(static_cast<int32_t*>(kept.data()), kCount, -1);
  for (const DRef& other : others) EXPECT_EQ(Elements(other, 0), Iota(100, kCount));
  // What another session has lent is copied.
  EXPECT_THAT(Elements(Unwrap(session_->MoveToWorker0(std::move(kept))), 0), Each(-1));

  kept = Numbers(4);
  ASSERT_EQ(cluster_->Stop(), OkStatus());
  EXPECT_EQ(In(kept), Iota(4, kCount));
  (void)session_->MoveToWorker0(std::move(kept));
  EXPECT_EQ(session_->SyncAll().code(), StatusCode::kUnavailable);
}

TEST_P(HostTensorsTest, ALostWorkersTensorIsCopiedToTheNextOne) {
  if (std::get<ClusterKind>(GetParam()) != ClusterKind::kTcpProcesses) {
    GTEST_SKIP() << "for clusters whose workers are replaced after they were killed";
  }
  SharedTensor kept = Numbers(6);
  ASSERT_EQ(kill(cluster_->worker_pids()[0], SIGKILL), 0);
  ASSERT_EQ(cluster_->ReplaceWorker(0), OkStatus());
  EXPECT_FALSE(session_->SyncAll().ok());
  EXPECT_OK(session_->AwaitWorkers(std::chrono::seconds(20)));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(In(kept), Iota(6, kCount));
  const DRef all = Unwrap(session_->BroadcastFromWorker0(std::move(kept)));
  EXPECT_EQ(Elements(all, 0), Iota(6, kCount));
  EXPECT_EQ(Elements(all, 1), Iota(6, kCount));
}

TEST_P(HostTensorsTest, NoRoomForOneIsAnErrorOfTheCall) {
  if (!IsLent()) GTEST_SKIP() << "host tensors are in the client's own memory here";
  const Status full =
      session_->MakeHostTensor({static_cast<int64_t>(kArenaBytes)}, DType::kUInt8).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(Message(full), AllOf(HasSubstr("rank 0"), HasSubstr("arena_bytes")));
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->MakeHostTensor({1000}, DType::kUInt8).status());
}

TEST_P(HostTensorsTest, ItsMemoryIsWorker0sWhereThatCanBeMapped) {
  EXPECT_EQ(IsLent(), std::get<Memory>(GetParam()) == Memory::kShared &&
                          std::get<ClusterKind>(GetParam()) != ClusterKind::kHosts &&
                          session_->workers()[0].device.starts_with("cpu"));
}

}  // namespace
}  // namespace lockstep::testing
