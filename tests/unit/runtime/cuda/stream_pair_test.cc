#include "runtime/cuda/stream_pair.h"

#include "runtime/cuda/await.h"
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

// A graph that communicates what was computed, and computes with what was communicated.
class CaptureTest : public StreamPairTest {
 protected:
  // Copies `from` to `between` while computing, on to `to` as communication, and back to `from`.
  std::unique_ptr<StreamPair::CapturedGraph> CaptureRound(const tensor::Storage& from,
                                                          const tensor::Storage& between,
                                                          const tensor::Storage& to,
                                                          const tensor::Storage& back) {
    EXPECT_EQ(streams_->BeginCapture(), OkStatus());
    const auto copy = [&](const tensor::Storage& target, const tensor::Storage& source) {
      EXPECT_EQ(streams_->BeforeCompute(RangeOf(source)), OkStatus());
      EXPECT_EQ(streams_->BeforeCompute(RangeOf(target)), OkStatus());
      EXPECT_EQ(streams_->compute().Copy(target.data(), source.data(), source.size_bytes()),
                OkStatus());
    };
    copy(between, from);
    EXPECT_EQ(streams_->BeginCommunication(), OkStatus());
    EXPECT_EQ(streams_->communication().Copy(to.data(), between.data(), to.size_bytes()),
              OkStatus());
    EXPECT_EQ(streams_->EndCommunication({{RangeOf(to), RangeOf(between)}}), OkStatus());
    copy(back, to);
    auto graph = streams_->EndCapture();
    EXPECT_TRUE(graph.ok()) << graph.status();
    return graph.ok() ? *std::move(graph) : nullptr;
  }
  void AwaitAll() {
    ASSERT_EQ(streams_->BeforeComputeOnAnything(), OkStatus());
    const auto done = gpu_->NewEvent();
    ASSERT_TRUE(done.ok());
    ASSERT_EQ(streams_->compute().Record(**done), OkStatus());
    ASSERT_EQ(Await(**done, Enough(), "all"), OkStatus());
  }
};

TEST_F(CaptureTest, AGraphDoesNothingUntilItIsLaunchedAndAllOfItWithEachLaunch) {
  const auto from = Put(std::vector<int>{1, 2, 3});
  const auto between = Put(std::vector<int>{0, 0, 0});
  const auto to = Put(std::vector<int>{0, 0, 0});
  const auto back = Put(std::vector<int>{0, 0, 0});
  auto graph = CaptureRound(*from, *between, *to, *back);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(Get<int>(back->data(), 3), (std::vector<int>{0, 0, 0}));
  const collective::MemoryRange used[] = {RangeOf(*from), RangeOf(*between), RangeOf(*to),
                                          RangeOf(*back)};
  for (int round = 4; round <= 8; ++round) {
    // The next launch comes after this, and what reads its result after the launch.
    ASSERT_EQ(streams_->BeforeCompute(RangeOf(*from)), OkStatus());
    const std::vector<int> elements = {round, round + 1, round + 2};
    ASSERT_EQ(copier_->ToGpu(streams_->compute(), from->data(), elements.data(), 12, Enough()),
              OkStatus());
    ASSERT_EQ(streams_->Launch(*graph, used), OkStatus());
    ASSERT_EQ(streams_->BeforeCompute(RangeOf(*back)), OkStatus());
    EXPECT_EQ(Get<int>(back->data(), 3), elements);
  }
  AwaitAll();
}

TEST_F(CaptureTest, WhatIsAllocatedMeanwhileIsTheGraphs) {
  ASSERT_EQ(streams_->BeginCapture(), OkStatus());
  auto scratch = Allocate(64);
  const std::weak_ptr<tensor::Storage> watched = scratch;
  scratch.reset();
  auto graph = streams_->EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ((*graph)->held_bytes(), 64u);
  graph->reset();
  EXPECT_TRUE(watched.expired());
}

// One that failed leaves the streams as they were.
TEST_F(CaptureTest, AQuestionAboutAnEventEndsIt) {
  const auto asked = gpu_->NewEvent();
  ASSERT_TRUE(asked.ok());
  ASSERT_EQ(streams_->compute().Record(**asked), OkStatus());
  ASSERT_EQ(streams_->BeginCapture(), OkStatus());
  EXPECT_FALSE((*asked)->IsDone().ok());
  EXPECT_FALSE(streams_->EndCapture().ok());
  ASSERT_EQ(Await(**asked, Enough(), "what came before"), OkStatus());
  ASSERT_EQ(streams_->BeginCapture(), OkStatus());
  EXPECT_TRUE(streams_->EndCapture().ok());
}

#ifdef LOCKSTEP_FAKE_GPU
TEST_F(CaptureTest, WhatOtherThreadsFreeGoesOnBesideIt) {
  auto freed = Allocate(4096);
  ASSERT_EQ(streams_->BeginCapture(), OkStatus());
  std::thread([&] {
    ASSERT_EQ(gpu_->Bind(), OkStatus());
    freed.reset();
  }).join();
  EXPECT_TRUE(streams_->EndCapture().ok());
}

// The fake tells of it; a GPU may do anything.
TEST_F(CaptureTest, AGraphThatIsDestroyedWhileItIsExecutedIsAMisuse) {
  const auto from = Put(std::vector<int>{1});
  const auto to = Put(std::vector<int>{0});
  auto graph = CaptureRound(*from, *to, *to, *to);
  const int before = fake_cuda_misuses();
  fake_cuda::Gate gate(streams_->communication().handle());
  const collective::MemoryRange used[] = {RangeOf(*from), RangeOf(*to)};
  ASSERT_EQ(streams_->Launch(*graph, used), OkStatus());
  graph.reset();
  EXPECT_EQ(fake_cuda_misuses(), before + 1);
  gate.Open();
  AwaitAll();
}

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
