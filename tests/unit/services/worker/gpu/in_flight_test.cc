#include "services/worker/gpu/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/collective/nccl/nccl_device.h"
#include "runtime/cuda/await.h"
#include "runtime/tensor/storage.h"
#include "tests/support/gpu.h"
#ifdef LOCKSTEP_FAKE_GPU
#include "tests/fakes/cuda/gate.h"
#endif

namespace lockstep::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

class InFlightTest : public testing::Test {
 protected:
  // How many are done.
  StatusOr<int> Collect() {
    int collected = 0;
    const Status status = in_flight_->Collect(&collected);
    if (!status.ok()) return status;
    return collected;
  }
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_GPU();
    auto device = collective::nccl::OpenDevice({});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    in_flight_ = std::make_unique<InFlight>(*device_);
  }

  GpuWork Work(uint64_t command, const std::string& what = "scale") {
    GpuWork work;
    work.session = SessionId(3);
    work.command = command;
    work.what = what;
    return work;
  }
  void Add(GpuWork work) { ASSERT_TRUE(in_flight_->Add(std::move(work)).ok()); }
  // Until nothing is in flight.
  void AwaitAll() {
    std::shared_ptr<collective::DeviceEvent> event;
    ASSERT_TRUE(device_->MarkCompute(&event).ok());
    ASSERT_TRUE(cuda::Await(*event, {Deadline::After(30s)}, "all").ok());
  }

  cuda::StreamHandle compute_stream() const {
    return static_cast<cuda::StreamHandle>(device_->compute_stream());
  }

  std::shared_ptr<collective::Accelerator> device_;
  std::unique_ptr<InFlight> in_flight_;
};

TEST_F(InFlightTest, WhatItWorksOnIsHeldUntilItIsDone) {
  const auto heap = tensor::NewHeapAllocator();
  auto tensor = tensor::Tensor::Empty(*heap, DType::kFloat32, Shape{4});
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const std::weak_ptr<tensor::Storage> storage = tensor->storage();
  GpuWork work = Work(1);
  work.held.push_back(*std::move(tensor));
  tensor = tensor::Tensor();
  Add(std::move(work));
  EXPECT_FALSE(storage.expired());
  AwaitAll();
  ASSERT_EQ(Collect().value(), 1);
  EXPECT_TRUE(storage.expired());
}

TEST_F(InFlightTest, WhatIsDoneIsForgottenOldestFirst) {
  std::vector<int> done;
  for (int i = 1; i <= 3; ++i) {
    GpuWork work = Work(static_cast<uint64_t>(i));
    work.done = [&done, i](std::chrono::nanoseconds) { done.push_back(i); };
    Add(std::move(work));
  }
  EXPECT_TRUE(in_flight_->HasAnyOf(SessionId(3)));
  EXPECT_FALSE(in_flight_->HasAnyOf(SessionId(4)));
  AwaitAll();
  EXPECT_EQ(Collect().value(), 3);
  EXPECT_TRUE(in_flight_->empty());
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
}

TEST_F(InFlightTest, EventsAreUsedAgain) {
  for (int i = 0; i < 3000; ++i) {
    Add(Work(1));
    if (i % 100 == 99) {
      AwaitAll();
      ASSERT_EQ(Collect().value(), 100);
    }
  }
}

// A connection that is not asked for anything.
class NoConnection final : public collective::DeviceConnection {
 public:
  Status Health() override { return OkStatus(); }
  void Abort(const Status&) override {}
  bool is_aborted() const override { return false; }
};

class SpoiltTest : public InFlightTest {
 protected:
  static collective::MemoryRange Memory(uintptr_t at) {
    return {reinterpret_cast<void*>(at * 100), 100};
  }
  void Collective(uint64_t command, uintptr_t from, uintptr_t to) {
    GpuWork work = Work(command, "allreduce");
    work.connections = {std::make_shared<NoConnection>()};
    work.reads = {Memory(from)};
    work.writes = {Memory(to)};
    Add(std::move(work));
  }
  void Call(uint64_t command, uintptr_t from, uintptr_t to, uint32_t session = 3) {
    GpuWork work = Work(command);
    work.session = SessionId(session);
    work.reads = {Memory(from)};
    work.writes = {Memory(to)};
    Add(std::move(work));
  }
  // Which of Memory(1) to Memory(9).
  std::vector<uintptr_t> Spoilt(const CutOff& cut_off) {
    const TensorMemory spoilt = in_flight_->SpoiltBy(SessionId(3), cut_off);
    std::vector<uintptr_t> which;
    for (uintptr_t at = 1; at < 10; ++at) {
      if (MeetsAny(spoilt, Memory(at))) which.push_back(at);
    }
    return which;
  }
};

TEST_F(SpoiltTest, WhatIsCutOffSpoilsWhatIsMadeOfIt) {
  Collective(5, 1, 2);
  Collective(7, 1, 3);
  Call(8, 3, 4);
  Call(9, 2, 5);
  Call(9, 3, 6, /*session=*/4);
  Call(10, 4, 7);
  EXPECT_THAT(Spoilt({.from_command = 7}), ElementsAre(3, 4, 7));
  EXPECT_THAT(Spoilt({.from_command = 8}), IsEmpty());
  EXPECT_THAT(Spoilt({.generation = Generation(1), .from_command = 7}), IsEmpty());
}

// A rank whose peers were aborted before it knew may have got garbage, and taken it for done.
TEST_F(SpoiltTest, SoDoesWhatWasDoneNotLongAgo) {
  const auto before = Deadline::Clock::now();
  Collective(5, 1, 2);
  Call(6, 2, 3);
  AwaitAll();
  ASSERT_EQ(Collect().value(), 2);
  Call(7, 3, 4);
  EXPECT_THAT(Spoilt({.from_command = 5}), IsEmpty()) << "they were done in time";
  EXPECT_THAT(Spoilt({.from_command = 5, .since = before}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Spoilt({.from_command = 6, .since = before}), IsEmpty());
  EXPECT_THAT(Spoilt({.since = before}), ElementsAre(2, 3, 4));
  in_flight_->Confirm(SessionId(3));
  EXPECT_THAT(Spoilt({.since = before}), IsEmpty());
  EXPECT_THAT(Spoilt({.from_command = 5, .since = before}), ElementsAre(2, 3, 4));
}

#ifdef LOCKSTEP_FAKE_GPU
TEST_F(InFlightTest, WhatMayHaveFailedIsNamedFromTheOldestOn) {
  Add(Work(1, "done_long_ago"));
  AwaitAll();
  ASSERT_EQ(Collect().value(), 1);
  fake_cuda::Gate gate(compute_stream());
  Add(Work(7, "scale"));
  EXPECT_EQ(in_flight_->Blame(), "command 7 (scale)");
  Add(Work(8, "add"));
  Add(Work(9, "sum"));
  EXPECT_EQ(Collect().value(), 0);
  EXPECT_EQ(in_flight_->Blame(),
            "command 7 (scale), or one of the 2 after it that were under way, up to command 9 "
            "(sum) of session 3");
  gate.Open();
  AwaitAll();
}

TEST_F(InFlightTest, TheTimeOfACollectiveRunsWhenItIsTheOldest) {
  fake_cuda::Gate gate(compute_stream());
  Add(Work(1));
  GpuWork collective = Work(2, "allreduce");
  collective.time_limit = 20ms;
  Add(std::move(collective));
  std::this_thread::sleep_for(40ms);
  EXPECT_EQ(Collect().value(), 0) << "it is not the oldest";
  gate.Open();
  AwaitAll();
  ASSERT_EQ(Collect().value(), 2);

  fake_cuda::Gate second(compute_stream());
  collective = Work(3, "allreduce");
  collective.time_limit = 20ms;
  Add(std::move(collective));
  std::this_thread::sleep_for(40ms);
  const Status late = Collect().status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(late), HasSubstr("all ranks have begun the allreduce"));
  second.Open();
  AwaitAll();
}
#endif

}  // namespace
}  // namespace lockstep::worker
