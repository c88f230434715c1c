// Fragments on clusters of their own: where they are off, without a compiler, larger than other
// clusters have memory for, and where a worker is lost.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/integration/fragments_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

class FragmentsOwnClusterTest : public OwnClusterFixture {
 protected:
  StatusOr<std::vector<DRef>> Execute(Asked asked) {
    return session_->Execute(Unwrap(Fragment::Mlir("sum", "test.mlir")),
                             {{int64_t{asked}}, {Numbers(10), Split::kRows}},
                             {{Combine::kAdd, Shape{1}}});
  }
};

class FragmentsOffTest : public FragmentsOwnClusterTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = 2;
    options.controller.fragments = "off";
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsOffTest, ::testing::Values(ClusterKind::kTcpThreads),
                         NameOf);

TEST_P(FragmentsOffTest, NothingIsCompiledAndTheSessionGoesOn) {
  const Status status = Execute(kSum).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(status), HasSubstr("fragments are off in this cluster"));
  // The name of a function is no code.
  EXPECT_OK(session_->Compile(Unwrap(Fragment::Function("lockstep.copy"))).status());
  EXPECT_OK(session_->SyncAll());
}

class FragmentsWithoutCompilerTest : public FragmentsOwnClusterTest {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.workers = 2;
    options.worker.compiler = "/nonexistent/lockstep-compiler";
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsWithoutCompilerTest,
                         ::testing::Values(ClusterKind::kLocalThreads), NameOf);

TEST_P(FragmentsWithoutCompilerTest, WorkersSayWhatIsMissing) {
  const Status status = Execute(kSum).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("fragments are not available: "));
  EXPECT_OK(session_->SyncAll());
}

// One worker, because what an arena gives is there, whether it is written or not.
class FragmentsLargeTest : public OwnClusterFixture {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_DEVICE") != nullptr) GTEST_SKIP() << "copied to a GPU, it takes long";
    ClusterOptions options;
    options.workers = 1;
    options.worker.arena_bytes = size_t{3} << 30;
    SessionOptions session = Options();
    session.num_groups = 1;
    Start(options, session);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsLargeTest,
                         ::testing::Values(ClusterKind::kLocalThreads), NameOf);

TEST_P(FragmentsLargeTest, AResultIsLargerThanTwoGigabytes) {
  constexpr int64_t kMany = (int64_t{2} << 30) / 8 + 10;
  const DRef result = Unwrap(session_->Execute(Unwrap(Fragment::Mlir("sum")), {{kMany}, Numbers(1)},
                                               {{Combine::kNone}}))
                          .front();
  const DRef last = Call("lockstep.slice", result, 0, kMany - 1, kMany);
  EXPECT_EQ(Elements<double>(last, 0), (std::vector<double>{1}));
}

class FragmentsLossTest : public FragmentsOwnClusterTest {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentsLossTest,
                         ::testing::Values(ClusterKind::kLocalProcesses), NameOf);

// Those that go on end their loops, too; what was compiled is compiled again, on all.
TEST_P(FragmentsLossTest, AWorkerThatIsLostWhileTheyRunIsReplaced) {
  Session other = Open(*cluster_);
  (void)Unwrap(Execute(kUntilAborted));
  EXPECT_OK(session_->Flush());
  ASSERT_EQ(kill(cluster_->worker_pids()[1], SIGKILL), 0);
  EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("rank 1"));
  EXPECT_OK(cluster_->ReplaceWorker(1));
  for (Session* session : {session_.get(), &other}) {
    EXPECT_OK(session->AwaitWorkers(std::chrono::seconds(30)));
    EXPECT_OK(session->Reset());
  }
  EXPECT_OK(other.SyncAll());
  const DRef sum = Unwrap(Execute(kSum)).front();
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(sum)).Elements<double>()), (std::vector<double>{55}));
}

}  // namespace
}  // namespace lockstep::testing
