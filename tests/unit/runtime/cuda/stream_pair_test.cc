#include "runtime/cuda/stream_pair.h"

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU
#include <chrono>
#include <thread>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/gate.h"
#endif

namespace lockstep::cuda {
namespace {

class StreamPairTest : public GpuTest {
 protected:
  // Communication that copies `from` to `to`.
  void Communicate(const tensor::Storage& to, const tensor::Storage& from) {
    ASSERT_TRUE(streams_->BeginCommunication().ok());
    ASSERT_TRUE(streams_->communication().Copy(to.data(), from.data(), from.size_bytes()).ok());
    const collective::MemoryRange used[] = {RangeOf(to), RangeOf(from), {}};
    ASSERT_TRUE(streams_->EndCommunication(used).ok());
    ASSERT_NE(streams_->TakeLastCommunication().ended, nullptr);
  }
};

TEST_F(StreamPairTest, CommunicationComesAfterWhatWasComputedAndBeforeWhatUsesIt) {
  // Large enough for the GPU to be late if it is not waited for.
  const size_t count = size_t{1} << 20;
  const auto target = Put(std::vector<int>(count, 0));
  for (int round = 1; round <= 5; ++round) {
    const auto source = Put(std::vector<int>(count, round));
    Communicate(*target, *source);
    ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*target)).ok());
    ASSERT_EQ(Get<int>(target->data(), count), std::vector<int>(count, round));
  }
}

#ifdef LOCKSTEP_FAKE_GPU
// Holds a stream up until it is let go.
TEST_F(StreamPairTest, WhatUsesOtherMemoryDoesNotWaitForCommunication) {
  const auto source = Put(std::vector<int>{1, 2, 3});
  const auto target = Allocate(12);
  const auto other = Put(std::vector<int>{4, 5, 6});
  fake_cuda::Gate gate(streams_->communication().handle());
  Communicate(*target, *source);
  ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*other)).ok());
  EXPECT_EQ(Get<int>(other->data(), 3), (std::vector<int>{4, 5, 6}))
      << "this would not have come, had it waited";

  ASSERT_TRUE(streams_->BeforeComputeOnAnything().ok());
  const auto done = gpu_->NewEvent();
  ASSERT_TRUE(done.ok());
  ASSERT_TRUE(streams_->compute().Record(**done).ok());
  EXPECT_EQ((*done)->IsDone().value(), false);
  gate.Open();
  EXPECT_EQ(Get<int>(target->data(), 3), (std::vector<int>{1, 2, 3}));
}

TEST_F(StreamPairTest, HowLongOneStreamWaitsForTheOtherIsCounted) {
  const auto source = Put(std::vector<int>{1, 2, 3});
  const auto target = Allocate(12);
  Communicate(*target, *source);
  ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*target)).ok());
  ASSERT_EQ(Get<int>(target->data(), 3), (std::vector<int>{1, 2, 3}));
  const collective::StreamWaits before = streams_->Waits().value();
  using std::chrono::milliseconds;
  const auto open_late = [](fake_cuda::Gate& gate) {
    std::this_thread::sleep_for(milliseconds(50));
    gate.Open();
  };
  fake_cuda::Gate on_compute(streams_->compute().handle());
  Communicate(*target, *source);
  ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*target)).ok());
  open_late(on_compute);
  ASSERT_EQ(Get<int>(target->data(), 3), (std::vector<int>{1, 2, 3}));
  const collective::StreamWaits then = streams_->Waits().value();
  EXPECT_GE(then.communication - before.communication, milliseconds(5));

  fake_cuda::Gate on_communication(streams_->communication().handle());
  Communicate(*target, *source);
  ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*target)).ok());
  open_late(on_communication);
  ASSERT_EQ(Get<int>(target->data(), 3), (std::vector<int>{1, 2, 3}));
  EXPECT_GE(streams_->Waits().value().compute - then.compute, milliseconds(5));
}

TEST_F(StreamPairTest, WaitsEndWhenTheyAreInterruptedAndAtTheirDeadline) {
  fake_cuda::Gate gate(streams_->compute().handle());
  const auto done = gpu_->NewEvent();
  ASSERT_TRUE(done.ok());
  ASSERT_TRUE(streams_->compute().Record(**done).ok());
  const Status late = Await(**done, {Deadline::After(std::chrono::milliseconds(20))}, "a kernel");
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(Message(late).find("has not finished a kernel"), std::string::npos) << late;
  collective::WaitLimit patience = Enough();
  patience.interrupted = [] { return Aborted("by the test"); };
  EXPECT_EQ(Await(**done, patience, "a kernel").code(), StatusCode::kAborted);
  gate.Open();
  EXPECT_TRUE(Await(**done, Enough(), "a kernel").ok());
}

TEST_F(StreamPairTest, AnErrorOnTheGpuIsSeenByWhoeverLooksNext) {
  fake_cuda_set_sticky_error(700);
  const auto event = gpu_->NewEvent();
  EXPECT_FALSE(event.ok());
  EXPECT_NE(Message(gpu_->Loss()).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
      << gpu_->Loss();
  EXPECT_FALSE(allocator_->Allocate(10).ok());
  fake_cuda_set_sticky_error(0);
  EXPECT_FALSE(gpu_->Loss().ok()) << "what is lost stays lost";
}
#endif

}  // namespace
}  // namespace lockstep::cuda
