#include "services/worker/execution_control.h"

#include <gmock/gmock.h>

#include "tests/unit/services/worker/execute/executor_under_test.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

class ExecutionControlTest : public ExecutorTest {
 protected:
  void SetUp() override {
    ExecutorTest::SetUp();
    metrics_ = std::make_unique<WorkerMetrics>(*arena_, activity_, *bulk_);
    control_ = std::make_unique<ExecutionControl>(*metrics_, std::chrono::milliseconds(0));
    control_->SetExecutor(executor_.get());
    control_->BeginConnecting(0, Epoch(7));
    control_->EndConnecting();
  }

  void Barrier() {
    Run([](auto command) { command.initCollective().setKind(wire::CollectiveKind::BARRIER); });
  }

  std::unique_ptr<WorkerMetrics> metrics_;
  std::unique_ptr<ExecutionControl> control_;
};

// It may be waiting for the lost rank, which no abort of a session is about.
TEST_F(ExecutionControlTest, ABrokenWorldEndsTheWorkOfEverySession) {
  OpenSession();
  control_->OnWorldBroken(Epoch(7));
  const auto session = executor_->sessions().Find(kSession);
  EXPECT_TRUE(session->Skips(1));
  EXPECT_THAT(session->failure().message, HasSubstr("a worker of the cluster is lost"));
}

TEST_F(ExecutionControlTest, InABrokenWorldNoCollectiveBegins) {
  control_->OnWorldBroken(Epoch(7));
  OpenSession();
  Barrier();
  EXPECT_EQ(Failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(log_.runs, 0);
}

TEST_F(ExecutionControlTest, AWorldThatWasLeftMayBreak) {
  OpenSession();
  control_->OnWorldBroken(Epoch(6));
  Barrier();
  EXPECT_EQ(Failure(), OkStatus());
  EXPECT_EQ(log_.runs, 1);
}

}  // namespace
}  // namespace lockstep::worker
