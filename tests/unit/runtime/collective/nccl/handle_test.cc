#include "runtime/collective/nccl/handle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/collective/nccl/endings.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/stream_pair.h"
#include "tests/fakes/cuda/gate.h"
#include "tests/fakes/nccl/fake_nccl.h"

namespace lockstep::collective::nccl {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 2;

Deadline Patience() { return Deadline::After(30s); }

// Two ranks of this process, each with a GPU.
class HandleTest : public testing::Test {
 protected:
  struct Member {
    std::unique_ptr<cuda::StreamPair> streams;
    std::shared_ptr<Handle> handle;
    void* memory = nullptr;
  };

  void SetUp() override {
    const auto library = LoadLibrary("");
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *library;
    aborts_before_ = fake_nccl_aborts();
    ncclUniqueId id{};
    ASSERT_EQ(library_->ncclGetUniqueId(&id), ncclSuccess);
    OnEachRank([&](int rank, Member& self) {
      auto gpu = cuda::OpenGpu(rank);
      ASSERT_TRUE(gpu.ok()) << gpu.status();
      self.memory = fake_cuda_allocate(kCount * sizeof(float));
      self.streams = *cuda::StreamPair::Create(*gpu);
      auto handle = Handle::Init(*library_, *gpu, id, rank, kRanks, Patience(), nullptr);
      ASSERT_TRUE(handle.ok()) << handle.status();
      self.handle = *std::move(handle);
    });
  }
  void TearDown() override {
    for (Member& member : members_) member.handle.reset();
    EXPECT_TRUE(AwaitEndings(Patience()));
    EXPECT_EQ(fake_nccl_live_communicators(), 0);
    OnEachRank([](int, Member& self) { fake_cuda_free(self.memory); });
  }

  // At the same time.
  void OnEachRank(const std::function<void(int rank, Member& self)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] { body(rank, members_[static_cast<size_t>(rank)]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Begins one, and notes its end.
  void AllReduce(Member& self) {
    ASSERT_TRUE(self.streams->gpu().Bind().ok());
    const Status begun = self.handle->Run(
        "ncclAllReduce", Patience(), nullptr, [&](const Library& nccl, ncclComm_t comm) {
          return nccl.ncclAllReduce(self.memory, self.memory, kCount, ncclFloat32, ncclSum, comm,
                                    ToNative(self.streams->communication().handle()));
        });
    ASSERT_TRUE(begun.ok()) << begun;
    std::shared_ptr<cuda::Event> end = *self.streams->gpu().NewEvent();
    ASSERT_TRUE(self.streams->communication().Record(*end).ok());
    self.handle->NoteEnd(end);
    std::lock_guard lock(mutex_);
    ends_[self.handle.get()] = std::move(end);
  }
  int aborts() const { return fake_nccl_aborts() - aborts_before_; }

  static constexpr size_t kCount = 10;
  const Library* library_ = nullptr;
  int aborts_before_ = 0;
  std::array<Member, kRanks> members_;
  std::mutex mutex_;  // guards what follows
  std::map<const Handle*, std::shared_ptr<cuda::Event>> ends_;
};

TEST_F(HandleTest, EndsInOrderWhenAllRanksEnd) {
  for (Member& member : members_) member.handle.reset();
  EXPECT_TRUE(AwaitEndings(Patience()));
  EXPECT_EQ(aborts(), 0);
}

// NCCL goes on after its call has returned, and puts the work into the stream some time later.
TEST_F(HandleTest, ACollectiveIsInTheStreamWhenRunReturns) {
  OnEachRank([&](int, Member& self) {
    ASSERT_TRUE(self.streams->gpu().Bind().ok());
    std::fill_n(static_cast<float*>(fake_cuda_host_view(self.memory)), kCount, 1.0f);
    const Status begun = self.handle->Run(
        "ncclAllReduce", Patience(), nullptr, [&](const Library& nccl, ncclComm_t comm) {
          const auto call = [&] {
            return nccl.ncclAllReduce(self.memory, self.memory, kCount, ncclFloat32, ncclSum, comm,
                                      ToNative(self.streams->communication().handle()));
          };
          const ncclResult_t first = call();
          EXPECT_EQ(first, ncclInProgress);
          EXPECT_EQ(call(), ncclInvalidArgument) << "it is not through with the first";
          return first;
        });
    ASSERT_TRUE(begun.ok()) << begun;
    const auto end = *self.streams->gpu().NewEvent();
    ASSERT_TRUE(self.streams->communication().Record(*end).ok());
    ASSERT_TRUE(cuda::Await(*end, {Patience()}, "an allreduce").ok());
    EXPECT_EQ(*static_cast<float*>(fake_cuda_host_view(self.memory)), 2.0f);
  });
}

// A rank that does not split keeps the others waiting for ever, for all that NCCL does about it.
TEST_F(HandleTest, ASplitThatIsGivenUpLeavesNothingBehind) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> is_held = held;
  const auto split =
      members_[0].handle->SplitAll(0, Deadline::After(50ms), nullptr, std::move(held));
  EXPECT_EQ(split.status().code(), StatusCode::kDeadlineExceeded) << split.status();
  EXPECT_FALSE(is_held.expired()) << "NCCL may still make it";
  EXPECT_FALSE(members_[0].handle->CanSplit());
  EXPECT_TRUE(members_[1].handle->CanSplit()) << "it has not been asked";
  members_[0].handle.reset();
  EXPECT_TRUE(AwaitEndings(Patience()));
  EXPECT_TRUE(is_held.expired());
}

// The other rank comes when it is not waited for any more: the new communicator is made all the
// same.
TEST_F(HandleTest, ASplitThatIsMadeAfterItWasGivenUpIsEndedToo) {
  EXPECT_FALSE(members_[0].handle->SplitAll(0, Deadline::After(50ms), nullptr).ok());
  const auto late = members_[1].handle->SplitAll(1, Patience(), nullptr);
  EXPECT_TRUE(late.ok()) << late.status();
}

TEST_F(HandleTest, AnAbortEndsWhatWaitsForIt) {
  std::thread aborter([&] {
    std::this_thread::sleep_for(20ms);
    members_[0].handle->Abort(Aborted("by the test"));
  });
  const auto split = members_[0].handle->SplitAll(0, Patience(), nullptr);
  aborter.join();
  EXPECT_EQ(Message(split.status()), "by the test");
  EXPECT_TRUE(members_[0].handle->is_aborted());
  EXPECT_EQ(Message(members_[0].handle->Health()), "by the test");
}

TEST_F(HandleTest, NobodyWaitsForTheEndOfOneWhoseGpuIsStuck) {
  fake_cuda::Gate gate(members_[0].streams->communication().handle());
  OnEachRank([&](int, Member& self) { AllReduce(self); });
  members_[0].handle->Abort(Aborted("by the test"));
  members_[0].handle.reset();
  EXPECT_FALSE(AwaitEndings(Deadline::After(50ms)));
  gate.Open();
  members_[1].handle->Abort(Aborted("by the test"));
  EXPECT_TRUE(AwaitEndings(Patience()));
}

TEST_F(HandleTest, AnAbortAfterACollectiveDoesNotCutItOff) {
  fake_cuda::Gate gate(members_[0].streams->communication().handle());
  OnEachRank([&](int, Member& self) {
    float* const view = static_cast<float*>(fake_cuda_host_view(self.memory));
    std::fill_n(view, kCount, 1.0f);
    AllReduce(self);
  });
  for (Member& member : members_) {
    AbortAfter(member.handle, member.streams->gpu().shared_from_this(), ends_[member.handle.get()],
               Aborted("by the test"));
  }
  EXPECT_FALSE(AwaitEndings(Deadline::After(50ms)));
  EXPECT_FALSE(members_[0].handle->is_aborted());
  gate.Open();
  EXPECT_TRUE(AwaitEndings(Patience()));
  for (Member& member : members_) {
    EXPECT_TRUE(member.handle->is_aborted());
    const float* const view = static_cast<float*>(fake_cuda_host_view(member.memory));
    for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(view[i], 2.0f);
  }
}

}  // namespace
}  // namespace lockstep::collective::nccl
