#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/module/function.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/gpu_work_tracker.h"
#include "tests/unit/services/worker/execute/executor_under_test.h"
#include "tests/unit/services/worker/fake_accelerator.h"
#include "tests/unit/services/worker/fake_device_world.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

// A module's: each call puts something into the compute stream, which a test ends.
class FunctionOnGpu final : public module::Function {
 public:
  const std::string& name() const override { return name_; }
  Status Call(const module::CallContext&, absl::Span<const registers::Value>,
              registers::Value*) override {
    return on_call ? on_call() : OkStatus();
  }
  std::function<Status()> on_call = {};

 private:
  const std::string name_ = "test.on_gpu";
};

class ExecutorOnGpuTest : public ExecutorTest {
 protected:
  static constexpr SessionId kOther{6};
  static constexpr RegisterId kResult{3, 1};

  void SetUp() override {
    ExecutorTest::SetUp();
    ASSERT_TRUE(functions_.Add(function_).ok());
    executor_->UseGpu(gpu_);
    executor_->SetWorld({&world_, &gpus_});
    OpenSession();
    GetFunction("test.on_gpu");
  }

  void Call(SessionId session = kSession) {
    Run([](auto command) { command.initCall().setFunction(kFunction.Packed()); },
        /*of_controller=*/false, session);
  }
  // From kTensor to kResult.
  void AllReduce() {
    Run([](auto command) {
      auto collective = command.initCollective();
      collective.setKind(wire::CollectiveKind::ALL_REDUCE);
      collective.setSource(kTensor.Packed());
      collective.setDestination(kResult.Packed());
      collective.setMakeDestination(true);
    });
  }
  void Reset(uint64_t failed_from) {
    Run(
        [&](auto command) {
          auto reset = command.initReset();
          reset.setGeneration(1);
          reset.setFailedFrom(failed_from);
        },
        /*of_controller=*/true);
  }
  SessionState& SessionOf(SessionId id) { return *executor_->sessions().Find(id); }
  bool Holds(RegisterId id) { return SessionOf(kSession).registers().Read(id).ok(); }
  uint64_t completed() const { return activity_.Now().completed; }

  std::shared_ptr<FunctionOnGpu> function_ = std::make_shared<FunctionOnGpu>();
  std::shared_ptr<FakeAccelerator> gpu_ = std::make_shared<FakeAccelerator>();
  FakeDeviceWorld gpus_{*gpu_};
};

TEST_F(ExecutorOnGpuTest, ACommandThatGoesOnOnTheGpuIsCompleteWhenItIsOverThere) {
  const uint64_t before = completed();
  Call();
  EXPECT_EQ(completed(), before);
  EXPECT_TRUE(executor_->IsGpuBusy());
  MakeTensor();
  EXPECT_EQ(completed(), before + 1) << "a command that needs no GPU is complete at once";
  gpu_->marks[0]->is_done = true;
  executor_->LookAtGpu();
  EXPECT_EQ(completed(), before + 2);
  EXPECT_FALSE(executor_->IsGpuBusy());
}

TEST_F(ExecutorOnGpuTest, ACommandThatFillsTheGpuWaitsForRoomThere) {
  for (size_t i = 1; i < GpuWorkTracker::kMostInFlight; ++i) Call();
  ASSERT_EQ(gpu_->marks.size(), GpuWorkTracker::kMostInFlight - 1) << "nothing has waited";
  int asked = 0;
  gpu_->marks[0]->when_asked = [&] {
    if (++asked < 5) return;
    for (size_t i = 0; i < GpuWorkTracker::kMostInFlight / 2; ++i) gpu_->marks[i]->is_done = true;
  };
  const uint64_t before = completed();
  Call();
  EXPECT_EQ(asked, 5) << "the call has returned before the GPU had room";
  EXPECT_EQ(completed(), before + GpuWorkTracker::kMostInFlight / 2);
  EXPECT_EQ(SessionOf(kSession).next_command, command_ + 1);
}

TEST_F(ExecutorOnGpuTest, AGpuThatIsLostBlamesTheOldestCommandNotTheOneThatRuns) {
  Call();
  const uint64_t oldest = command_;
  OpenSession(getpid(), kOther);
  GetFunction("test.on_gpu", kOther);
  function_->on_call = [this] {
    gpu_->loss = Internal("an illegal address");
    return Internal("the launch has failed");
  };
  Call(kOther);
  EXPECT_FALSE(SessionOf(kOther).has_failed());
  EXPECT_EQ(SessionOf(kSession).failure().command, oldest);
  EXPECT_EQ(SessionOf(kSession).failure().function, "test.on_gpu");
  EXPECT_THAT(Message(Failure()), HasSubstr("an illegal address"));
  EXPECT_THAT(Message(executor_->gpu_loss()), HasSubstr("the GPU is lost to this process"));
}

TEST_F(ExecutorOnGpuTest, AnErrorThatIsNotTheGpusIsTheRunningCommands) {
  Call();
  OpenSession(getpid(), kOther);
  GetFunction("test.on_gpu", kOther);
  function_->on_call = [] { return Internal("the launch has failed"); };
  Call(kOther);
  EXPECT_EQ(SessionOf(kOther).failure().command, command_);
  EXPECT_THAT(SessionOf(kOther).failure().message, HasSubstr("the launch has failed"));
  EXPECT_FALSE(SessionOf(kSession).has_failed());
  EXPECT_TRUE(executor_->gpu_loss().ok());
}

TEST_F(ExecutorOnGpuTest, AResetCutsOffCollectivesFromTheCommandThatFailed) {
  MakeTensor();
  AllReduce();
  EXPECT_TRUE(executor_->IsGpuBusy());
  EXPECT_TRUE(Holds(kResult));
  Reset(command_);
  EXPECT_FALSE(Holds(kResult));
  EXPECT_TRUE(Holds(kTensor));
  EXPECT_TRUE(gpus_.connection->is_aborted());
}

TEST_F(ExecutorOnGpuTest, AResetLeavesCollectivesBeforeTheCommandThatFailed) {
  MakeTensor();
  AllReduce();
  Reset(command_ + 1);
  EXPECT_TRUE(Holds(kResult));
  EXPECT_FALSE(gpus_.connection->is_aborted());
}

// What each of these answers is right only once all before it is done.
TEST_F(ExecutorOnGpuTest, AnswersWaitForTheGpu) {
  MakeTensor();
  const std::vector<std::function<void(wire::Command::Builder)>> commands = {
      [](auto command) { command.setSync(); },
      [](auto command) {
        auto store = command.initStore();
        store.initValue().setInt64(7);
        store.setRegister(kResult.Packed());
      },
      [](auto command) { command.initFetch().setRegister(kResult.Packed()); },
      [](auto command) { command.initLocate().setRegister(kTensor.Packed()); }};
  for (const auto& fill : commands) {
    Call();
    const size_t sent = channel_.sent().size();
    int asked = 0;
    FakeEvent* const last = gpu_->marks.back();
    last->when_asked = [&, last] {
      EXPECT_EQ(channel_.sent().size(), sent) << "it has answered before the GPU was done";
      last->is_done = ++asked == 5;
    };
    Run(fill);
    EXPECT_EQ(asked, 5);
    EXPECT_EQ(channel_.sent().size(), sent + 1);
    EXPECT_FALSE(executor_->IsGpuBusy());
  }
  EXPECT_TRUE(Failure().ok());
}

}  // namespace
}  // namespace lockstep::worker
