// What a reshard checks and keeps on one rank; what ranks exchange is in //tests/integration.
#include "services/worker/execute/reshard_command.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/plan/layout_codec.h"
#include "runtime/tensor/storage.h"
#include "tests/unit/services/worker/cuda_tensor.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using plan::Layout;
using plan::Mesh;
using plan::Placement;
using testing::HasSubstr;

Layout LayoutOn(std::vector<Rank> ranks, Placement placement, const Shape& shape = {4, 2}) {
  return *Layout::Make(shape, DType::kFloat32, *Mesh::Line(std::move(ranks)), {placement});
}

// Rank 1 of a world of four.
class ReshardCommandTest : public testing::Test {
 protected:
  static constexpr RegisterId kSource{1, 1};
  static constexpr RegisterId kResult{2, 1};

  ReshardCommandTest() { cache_.SetWorld(1, {0, 0, 0, 0}); }

  Status Run(const Layout& from, const Layout& to) {
    capnp::MallocMessageBuilder message;
    auto reshard = message.initRoot<wire::Command>().initReshard();
    reshard.setSource(kSource.Packed());
    reshard.setResult(kResult.Packed());
    plan::WriteLayout(reshard.initLayouts().initFrom(), from);
    plan::WriteLayout(reshard.getLayouts().initTo(), to);
    const WorldLinks world{&world_};
    const tensor::Processors places{host_.get()};
    const CollectiveContext context{
        1, 4, world, places, *session_, activity_, Deadline::After(std::chrono::seconds(20))};
    const auto no_call = [](BoundSteps::Call&, registers::Value*) {
      return Internal("a reshard calls nothing");
    };
    return ExecuteReshard({context, no_call, session_, nullptr, nullptr, nullptr},
                          reshard.asReader(), cache_);
  }
  void Write(registers::Value value) {
    ASSERT_TRUE(registers_.Write(kSource, std::move(value)).ok());
  }
  tensor::Tensor Numbers(const Shape& shape) {
    tensor::Tensor tensor = *tensor::Tensor::Empty(*allocator_, DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.NumElements(); ++i) {
      tensor.data_as<float>()[i] = static_cast<float>(i);
    }
    return tensor;
  }

  static control::SessionRecord Record() {
    control::SessionRecord record;
    record.id = SessionId(7);
    return record;
  }

  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_, {.bytes = size_t{1} << 30}};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  const std::shared_ptr<SessionState> session_ =
      std::make_shared<SessionState>(Record(), &registers_);
  control::ActivityPage activity_;
  ReshardCache cache_;
};

TEST_F(ReshardCommandTest, WhatNeedsNoOtherRankMeetsNone) {
  Write(Numbers({4, 2}));
  ASSERT_EQ(Run(LayoutOn({0, 1}, Placement::Replicate()), LayoutOn({0, 1}, Placement::Shard(1))),
            OkStatus());
  const auto* tensor = (*registers_.Read(kResult))->As<tensor::Tensor>();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape(), (Shape{4, 1}));
  EXPECT_EQ(tensor->data_as<float>()[3], 7);
  EXPECT_TRUE(log_.tags.empty());
}

TEST_F(ReshardCommandTest, ARankInNeitherMeshHasNothingToDo) {
  ASSERT_EQ(Run(LayoutOn({0, 2}, Placement::Shard(0)), LayoutOn({3, 0}, Placement::Shard(0))),
            OkStatus());
  EXPECT_EQ(registers_.Read(kResult).status().code(), StatusCode::kNotFound);
}

TEST_F(ReshardCommandTest, ASourceThatIsNotItsTileIsRefused) {
  const Layout rows = LayoutOn({1, 0}, Placement::Shard(0));
  const Layout whole = LayoutOn({1, 0}, Placement::Replicate());
  const auto message = [&] {
    const Status status = Run(rows, whole);
    EXPECT_FALSE(status.ok());
    return Message(status);
  };
  EXPECT_THAT(message(), HasSubstr("the source: "));  // holds no value
  Write(Numbers({4, 2}));
  EXPECT_THAT(message(), HasSubstr("this rank's tile is float32[2, 2], and the source (register "));
  Write(int64_t{3});
  EXPECT_THAT(message(), HasSubstr("not a tensor"));
  Write(CudaTensor());
  EXPECT_THAT(message(), HasSubstr("the source is on cuda:3"));
}

TEST_F(ReshardCommandTest, AnAbsurdTensorIsRefusedBeforeAnythingIsAllocated) {
  const Shape absurd = {int64_t{1} << 43, 2};
  const Status status = Run(LayoutOn({0}, Placement::Replicate(), absurd),
                            LayoutOn({0, 1, 2, 3}, Placement::Replicate(), absurd));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
}

TEST_F(ReshardCommandTest, APairOfLayoutsIsLoweredOnce) {
  const Layout rows = LayoutOn({0, 1}, Placement::Shard(0));
  const Layout columns = LayoutOn({0, 1}, Placement::Shard(1));
  const auto first = *cache_.Prepare(rows, columns);
  EXPECT_EQ(*cache_.Prepare(rows, columns), first);
  EXPECT_NE(*cache_.Prepare(columns, rows), first);
  cache_.SetWorld(1, {0, 1, 2, 3});
  EXPECT_NE(*cache_.Prepare(rows, columns), first) << "of another world";
}

TEST_F(ReshardCommandTest, TheCacheIsBounded) {
  const auto prepare = [&](int64_t rows) {
    return *cache_.Prepare(LayoutOn({0, 1}, Placement::Shard(0), {rows, 2}),
                           LayoutOn({0, 1}, Placement::Shard(1), {rows, 2}));
  };
  const auto oldest = prepare(0);
  const auto used = prepare(1);
  for (size_t i = 2; i < ReshardCache::kMaxEntries; ++i) prepare(static_cast<int64_t>(i));
  EXPECT_EQ(prepare(1), used);
  prepare(1000);
  EXPECT_EQ(prepare(1), used);
  EXPECT_NE(prepare(0), oldest);
}

TEST_F(ReshardCommandTest, TheResultCarriesItsLayout) {
  Write(Numbers({4, 2}));
  const Layout columns = LayoutOn({0, 1}, Placement::Shard(1));
  ASSERT_EQ(Run(LayoutOn({0, 1}, Placement::Replicate()), columns), OkStatus());
  ASSERT_NE(registers_.LayoutOf(kResult), nullptr);
  EXPECT_EQ(*registers_.LayoutOf(kResult), columns);
  EXPECT_EQ(registers_.LayoutOf(kSource), nullptr);
}

// Also on a rank that the command gives no part.
TEST_F(ReshardCommandTest, ASourceThatIsKnownToLieOtherwiseIsRefusedWithBothLayouts) {
  const Layout known = LayoutOn({0, 1}, Placement::Partial(Reduction::kSum));
  ASSERT_TRUE(
      registers_.Write(kSource, Numbers({4, 2}), std::make_shared<const Layout>(known)).ok());
  for (const Layout& claimed :
       {LayoutOn({0, 1}, Placement::Replicate()), LayoutOn({2, 3}, Placement::Replicate())}) {
    const Status status = Run(claimed, LayoutOn({0, 2}, Placement::Shard(1)));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), HasSubstr("is said to be " + claimed.ToString()));
    EXPECT_THAT(Message(status), HasSubstr("known to be " + known.ToString()));
  }
}

}  // namespace
}  // namespace lockstep::worker
