// Copies of every size to and from worker-0: through shared memory, and through the bulk socket,
// which is what is left where the client cannot map worker-0's memory.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

enum class Route { kSharedMemory, kSocket };

class BulkCopyTest : public ::testing::TestWithParam<std::tuple<ClusterKind, Route>> {
 protected:
  void SetUp() override {
    const auto [kind, route] = GetParam();
    const std::string why_not = WhyNot(kind);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ClusterOptions options;
    options.workers = 1;
    options.worker.arena_bytes = size_t{64} << 20;
    auto cluster = Cluster::Start(kind, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = std::move(*cluster);
    // Another host's memory need not be hidden.
    if (route == Route::kSocket && kind != ClusterKind::kHosts) HideMemory();
    auto session = cluster_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = std::make_unique<Session>(std::move(*session));
  }

  // Takes the name away from the worker's memory: to the client it is as if the worker were
  // elsewhere.
  void HideMemory() {
    const std::vector<pid_t> pids = cluster_->worker_pids();
    const pid_t worker = pids.empty() ? getpid() : pids.front();
    const std::set<std::string> paths = SegmentsOf(worker);
    ASSERT_FALSE(paths.empty());
    for (const std::string& path : paths) unlink(path.c_str());
  }

  static std::vector<uint8_t> Pattern(size_t size, uint8_t seed) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 131 + i / 251 + seed);
    return bytes;
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Session> session_;
};
INSTANTIATE_TEST_SUITE_P(Clusters, BulkCopyTest,
                         ::testing::Combine(::testing::ValuesIn(AllKinds()),
                                            ::testing::Values(Route::kSharedMemory,
                                                              Route::kSocket)),
                         [](const ::testing::TestParamInfo<std::tuple<ClusterKind, Route>>& info) {
                           return NameOf({std::get<0>(info.param), 0}) +
                                  (std::get<1>(info.param) == Route::kSharedMemory ? "SharedMemory"
                                                                                   : "Socket");
                         });

TEST_P(BulkCopyTest, EverySizeArrivesWhole) {
  constexpr size_t kMiB = size_t{1} << 20;
  uint8_t seed = 0;
  // What comes with an answer has at most 16 KiB.
  for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{4095}, size_t{16384}, size_t{16385},
                      kMiB - 1, kMiB, kMiB + 1, 3 * kMiB, 6 * kMiB + 12345}) {
    const std::vector<uint8_t> sent = Pattern(size, ++seed);
    const auto ref =
        session_->CopyToWorker0({static_cast<int64_t>(size)}, ViewOf(sent.data(), size));
    ASSERT_TRUE(ref.ok()) << ref.status();
    std::vector<uint8_t> received(size);
    EXPECT_OK(session_->CopyFromWorker0(ViewOf(received.data(), size), *ref));
    EXPECT_TRUE(received == sent) << size;

    const std::vector<uint8_t> again = Pattern(size, ++seed);
    EXPECT_OK(session_->CopyToWorker0(*ref, ViewOf(again.data(), size)));
    const auto tensor = session_->CopyFromWorker0(*ref);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(*tensor->Elements<uint8_t>() == again) << size;
  }
}

TEST_P(BulkCopyTest, CommandsSeeWhatWasCopied) {
  const std::vector<float> sent(100'001, 2.5f);
  const auto ref = session_->CopyToWorker0({100'001}, ViewOf(sent.data(), sent.size()));
  ASSERT_TRUE(ref.ok()) << ref.status();
  const auto cast = session_->Call(*session_->GetFunction("lockstep.cast"), *ref, DType::kInt32);
  const auto back = session_->CopyFromWorker0(*cast);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back->Elements<int32_t>(), std::vector<int32_t>(100'001, 2));
}

// A small tensor comes with the answer of worker-0, which has executed by then what came before.
TEST_P(BulkCopyTest, SmallTensorsAreReadAfterTheCommandsBefore) {
  const auto cast = session_->GetFunction("lockstep.cast");
  for (int32_t value = 0; value < 50; ++value) {
    const auto ref = session_->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{value, -value}}));
    ASSERT_TRUE(ref.ok()) << ref.status();
    const auto real = session_->Call(*cast, *ref, DType::kFloat64);
    std::array<double, 2> read = {0.5, 0.5};
    ASSERT_EQ(session_->CopyFromWorker0(ViewOf(read.data(), read.size()), *real), OkStatus());
    EXPECT_EQ(read, (std::array<double, 2>{value * 1.0, value * -1.0}));
    const auto whole = session_->Call(*cast, *real, DType::kInt32);
    const auto tensor = session_->CopyFromWorker0(*whole);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(*tensor, HostTensor::Of<int32_t>({2}, {{value, -value}}));
  }
}

TEST_P(BulkCopyTest, ASmallTensorThatDoesNotFitLeavesTheSessionWell) {
  const auto ref = session_->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{1, 2}}));
  ASSERT_TRUE(ref.ok()) << ref.status();
  std::array<float, 2> read = {8, 8};
  EXPECT_EQ(session_->CopyFromWorker0(ViewOf(read.data(), read.size()), *ref).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(read, (std::array<float, 2>{8, 8}));
  EXPECT_OK(session_->SyncAll());
}

TEST_P(BulkCopyTest, RegisterThatWasSetAnewIsCopiedAnew) {
  const auto ref = session_->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{1, 2}}));
  ASSERT_TRUE(ref.ok()) << ref.status();
  ASSERT_TRUE(session_->CopyFromWorker0(*ref).ok());
  const HostTensor other = HostTensor::Of<int32_t>({2}, {{3, 4}});
  EXPECT_OK(session_->DebugSet(*ref, 0, other));
  const auto read = session_->CopyFromWorker0(*ref);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, other);
  const std::vector<int32_t> five = {5, 6};
  EXPECT_OK(session_->CopyToWorker0(*ref, ViewOf(five.data(), 2)));
  EXPECT_EQ(*session_->DebugGet(*ref, 0), Value(HostTensor::Of<int32_t>({2}, {{5, 6}})));
}

TEST_P(BulkCopyTest, TensorsThatAreDroppedMeanwhileAreFreed) {
  constexpr int64_t kSize = 24 << 20;
  const std::vector<uint8_t> sent = Pattern(kSize, 1);
  for (int i = 0; i < 5; ++i) {
    const auto ref = session_->CopyToWorker0({kSize}, ViewOf(sent.data(), sent.size()));
    ASSERT_TRUE(ref.ok()) << ref.status();
  }
}

TEST_P(BulkCopyTest, AStoreByAnotherThreadLeavesNoStaleAddress) {
  const auto tensor = [](int32_t value) { return HostTensor::Of<int32_t>({2}, {{value, value}}); };
  const auto ref = session_->CopyToWorker0(tensor(0));
  ASSERT_TRUE(ref.ok()) << ref.status();
  std::atomic<bool> over{false};
  std::thread copier([&] {
    while (!over) EXPECT_OK(session_->CopyFromWorker0(*ref).status());
  });
  for (int32_t value = 1; value <= 300; ++value) {
    EXPECT_OK(session_->DebugSet(*ref, 0, tensor(value)));
    const auto read = session_->CopyFromWorker0(*ref);
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) break;
    EXPECT_EQ(*read->Elements<int32_t>(), (std::vector<int32_t>{value, value}));
  }
  over = true;
  copier.join();
}

TEST_P(BulkCopyTest, ALostWorkerIsToldToWhoCopies) {
  if (cluster_->worker_pids().empty()) GTEST_SKIP() << "a thread cannot be killed";
  const std::vector<uint8_t> bytes(size_t{1} << 20);
  const auto ref = session_->CopyToWorker0({1 << 20}, ViewOf(bytes.data(), bytes.size()));
  ASSERT_TRUE(ref.ok()) << ref.status();
  ASSERT_EQ(kill(cluster_->worker_pids()[0], SIGKILL), 0);
  const auto begin = Deadline::Clock::now();
  lockstep::Status status;
  while (status.ok()) status = session_->CopyFromWorker0(*ref).status();
  EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 0"));
}

TEST_P(BulkCopyTest, CopiesAfterTheEndOfTheClusterAreErrors) {
  const auto ref = session_->CopyToWorker0(HostTensor::Of<int32_t>({2}, {{1, 2}}));
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_OK(session_->SyncAll());
  ASSERT_EQ(cluster_->Stop(), OkStatus());
  const Status status = session_->CopyFromWorker0(*ref).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("shut down"));
}

}  // namespace
}  // namespace lockstep::testing
