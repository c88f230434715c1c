#include "runtime/client/host_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/client/layout_commands.h"
#include "runtime/client/session_commands.h"
#include "runtime/control/value_codec.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

using testing::Contains;
using testing::Not;

// Worker-0 lends the beginning of one segment.
class HostTensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = std::string(SharedSegment::kNamePrefix) + "lent-" + RandomHex(8);
    auto segment = SharedSegment::Create(name, 4096);
    ASSERT_TRUE(segment.ok()) << segment.status();
    segment_ = *std::move(segment);
    controller_.locate = [this](wire::TensorLocation::Builder location) {
      location.setSegment(segment_->name());
      location.setDtype(wire::DType::FLOAT32);
      location.initShape(1).set(0, 4);
      return OkStatus();
    };
    controller_.num_workers = 2;
    core_ = controller_.Open();
    MakeParts(/*map_memory=*/true);
  }
  void MakeParts(bool map_memory) {
    bulk_ = std::make_unique<BulkCopier>(*core_, control::ZmqContext::Create(),
                                         control::NewKeyPair(), map_memory, "inproc://nowhere");
    whole_ = std::make_unique<WholeTensors>(*core_, *bulk_);
    tensors_ = std::make_unique<HostTensors>(*core_, *bulk_, *whole_);
  }
  void LendNothing() {
    controller_.locate = [](wire::TensorLocation::Builder) { return OkStatus(); };
  }
  StatusOr<SharedTensor> Make() { return tensors_->Make({4}, DType::kFloat32); }
  DRef Handed(StatusOr<SharedTensor> tensor) {
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    StatusOr<DRef> ref = tensors_->MoveToWorker0(*std::move(tensor));
    EXPECT_TRUE(ref.ok()) << ref.status();
    return *std::move(ref);
  }
  std::vector<wire::Command::Which> Commands() {
    EXPECT_EQ(core_->Flush(), OkStatus());
    std::vector<wire::Command::Which> commands;
    for (const auto& batch : controller_.batches) {
      commands.insert(commands.end(), batch.commands.begin(), batch.commands.end());
    }
    return commands;
  }

  FakeController controller_;
  std::unique_ptr<SharedSegment> segment_;
  std::unique_ptr<SessionCore> core_;
  std::unique_ptr<BulkCopier> bulk_;
  std::unique_ptr<WholeTensors> whole_;
  std::unique_ptr<HostTensors> tensors_;
};

TEST_F(HostTensorsTest, WhatIsFilledIsWorker0sMemory) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_TRUE(tensor->is_lent());
  std::fill_n(tensor->Elements<float>()->data(), 4, 2.5f);
  EXPECT_EQ(reinterpret_cast<const float*>(segment_->data())[3], 2.5f);
  EXPECT_EQ(tensor->Elements<double>().status().code(), StatusCode::kInvalidArgument);
}

// Worker-0 sees by then that the client maps its memory, and keeps it if it loses the client.
TEST_F(HostTensorsTest, MemoryIsUsedAfterWorker0HasAnsweredOnceMore) {
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(Commands().back(), wire::Command::RELEASE);
  EXPECT_THAT(Commands(), Contains(wire::Command::SYNC).Times(1));
  ASSERT_TRUE(Make().ok());
  EXPECT_THAT(Commands(), Contains(wire::Command::SYNC).Times(1));
}

TEST_F(HostTensorsTest, HandingOverIsOneCommandWhichCopiesNothing) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const size_t before = Commands().size();
  const StatusOr<DRef> ref = tensors_->MoveToWorker0(*std::move(tensor));
  ASSERT_TRUE(ref.ok()) << ref.status();
  const auto commands = Commands();
  EXPECT_EQ(std::vector(commands.begin() + static_cast<int64_t>(before), commands.end()),
            std::vector{wire::Command::END_LOAN});
}

// Another thread would have to be woken for it, and nobody waits for it.
TEST_F(HostTensorsTest, HandingOverSendsNothingByItself) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const size_t before = controller_.batches.size();
  const StatusOr<DRef> ref = tensors_->MoveToWorker0(*std::move(tensor));
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(controller_.batches.size(), before);
  EXPECT_EQ(core_->Close(), OkStatus());
  EXPECT_EQ(controller_.batches.back().commands, std::vector{wire::Command::END_LOAN});
}

TEST_F(HostTensorsTest, ItsMappingOutlivesTheSession) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  tensors_.reset();
  whole_.reset();
  bulk_.reset();
  core_.reset();
  std::fill_n(tensor->Elements<float>()->data(), 4, 1.5f);
  EXPECT_EQ(reinterpret_cast<const float*>(segment_->data())[0], 1.5f);
}

TEST_F(HostTensorsTest, AWorkerThatLendsNothingIsAskedOnce) {
  LendNothing();
  for (int i = 0; i < 2; ++i) {
    StatusOr<SharedTensor> tensor = Make();
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_FALSE(tensor->is_lent());
    EXPECT_EQ(tensor->size_bytes(), 16u);
    EXPECT_EQ(controller_.locates, 1);
  }
}

TEST_F(HostTensorsTest, NoMemoryIsAskedForThatIsNotToBeMapped) {
  MakeParts(/*map_memory=*/false);
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_FALSE(tensor->is_lent());
  EXPECT_EQ(controller_.locates, 0);
  // Worker-0 has no bulk socket here, by which it would be copied.
  EXPECT_EQ(tensors_->MoveToWorker0(*std::move(tensor)).status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Commands(), Not(Contains(wire::Command::END_LOAN)));
}

TEST_F(HostTensorsTest, WhyNothingIsLentIsTold) {
  controller_.locate = [](wire::TensorLocation::Builder location) {
    control::WriteError(location.initRefusal(), control::ErrorOf(ResourceExhausted("full")));
    return OkStatus();
  };
  EXPECT_EQ(Make().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(core_->Look(), OkStatus());
}

TEST_F(HostTensorsTest, ABroadcastThatIsRefusedSendsNothing) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const size_t before = Commands().size();
  EXPECT_EQ(tensors_->DealOut(OperationKind::kBroadcast, *std::move(tensor), {.team = {0, 7}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(tensor->IsNull());
  EXPECT_EQ(Commands().size(), before);
}

// The other half of a message is missing, so the operation could never end; nothing has failed.
TEST_F(HostTensorsTest, WhatCannotBeDealtOutYetIsHandedOverLater) {
  FakeController controller;
  controller.num_workers = 2;
  controller.num_groups = 2;
  controller.locate = controller_.locate;
  const auto core = controller.Open();
  BulkCopier bulk(*core, control::ZmqContext::Create(), control::NewKeyPair(), true,
                  "inproc://nowhere");
  WholeTensors whole(*core, bulk);
  HostTensors tensors(*core, bulk, whole);
  StatusOr<SharedTensor> tensor = tensors.Make({4}, DType::kFloat32);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  StatusOr<DRef> sent = IssueEmpty(*core, {4}, DType::kFloat32, std::nullopt);
  ASSERT_TRUE(sent.ok());
  CollectiveCall half{.kind = OperationKind::kSendToNextGroup, .source = *sent};
  half.gives_result = false;
  ASSERT_TRUE(IssueCollective(*core, half, {}).ok());
  const StatusOr<plan::Layout> both = plan::Layout::Make(
      {4}, DType::kFloat32, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(tensors.DealOut(OperationKind::kBroadcast, *std::move(tensor), {}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(tensors.Place(*std::move(tensor), *both).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(tensor->is_lent());
  EXPECT_EQ(core->Flush(), OkStatus());
  for (const auto& batch : controller.batches) {
    EXPECT_THAT(batch.commands, Not(Contains(wire::Command::END_LOAN)));
  }
}

// The program, or a plan, may keep other names of the register, and do so for each step.
TEST_F(HostTensorsTest, WhatWasTakenIsGivenBackWhenItIsDropped) {
  const DRef kept = Handed(Make());
  {
    StatusOr<SharedTensor> taken = tensors_->MoveFromWorker0(kept);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_TRUE(taken->is_lent());
  }
  (void)Commands();
  ASSERT_NE(controller_.loans.back(), 0u);
  EXPECT_THAT(controller_.released, Contains(controller_.loans.back()));
  EXPECT_THAT(controller_.released, Not(Contains(kept.id().Packed())));
}

// Worker-0 may have given the tensor up, so its register holds nothing.
TEST_F(HostTensorsTest, WhatWasTakenBeforeAResetIsCopied) {
  StatusOr<SharedTensor> taken = tensors_->MoveFromWorker0(Handed(Make()));
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(core_->Reset(), OkStatus());
  const size_t before = Commands().size();
  EXPECT_TRUE(tensors_->MoveToWorker0(*std::move(taken)).ok());
  const auto commands = Commands();
  const std::vector since(commands.begin() + static_cast<int64_t>(before), commands.end());
  EXPECT_THAT(since, Not(Contains(wire::Command::END_LOAN)));
  EXPECT_THAT(since, Contains(wire::Command::EMPTY));
}

TEST_F(HostTensorsTest, ALayoutIsForgottenWhenWhatWasTakenIsHandedBack) {
  StatusOr<DRef> placed = tensors_->Place(*Make(), *OnWorker0({4}, DType::kFloat32));
  ASSERT_TRUE(placed.ok()) << placed.status();
  StatusOr<SharedTensor> taken = tensors_->MoveFromWorker0(*placed);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_NE(core_->LayoutOf(*placed), nullptr);
  EXPECT_TRUE(tensors_->MoveToWorker0(*std::move(taken)).ok());
  EXPECT_EQ(core_->LayoutOf(*placed), nullptr);
  EXPECT_THAT(Commands(), Contains(wire::Command::DECLARE_LAYOUT));
}

TEST_F(HostTensorsTest, ALoanEndsThatWasNoUse) {
  const DRef kept = Handed(Make());
  MakeParts(/*map_memory=*/true);
  // It has to be mapped anew, and the session fails before that may be used.
  auto locate = controller_.locate;
  controller_.locate = [this, locate](wire::TensorLocation::Builder location) {
    LOCKSTEP_RETURN_IF_ERROR(locate(location));
    controller_.on_next_batch = [this] {
      controller_.batch_answer = Internal("why");
      controller_.SayFailed(0, controller_.batch_answer);
    };
    return OkStatus();
  };
  EXPECT_EQ(tensors_->MoveFromWorker0(kept).status().code(), StatusCode::kInternal);
  ASSERT_EQ(core_->Reset(), OkStatus());
  (void)Commands();
  EXPECT_THAT(controller_.released, Contains(controller_.loans.back()));
}

TEST_F(HostTensorsTest, OnlyWhatHasNoOtherNamesIsGivenAway) {
  EXPECT_TRUE(tensors_->DealOut(OperationKind::kBroadcast, *Make(), {}).ok());
  (void)Commands();
  EXPECT_TRUE(controller_.gives_source);
  const DRef kept = Handed(Make());
  StatusOr<SharedTensor> taken = tensors_->MoveFromWorker0(kept);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(tensors_->DealOut(OperationKind::kBroadcast, *std::move(taken), {}).ok());
  (void)Commands();
  EXPECT_FALSE(controller_.gives_source);
}

// Its number is the same, and its worker-0 looks the same: so do those of two clusters in one
// process, and of a session that was left and attached to again.
TEST_F(HostTensorsTest, WhatAnotherSessionHasLentIsCopied) {
  FakeController controller;
  controller.num_workers = 2;
  controller.locate = [this](wire::TensorLocation::Builder location) {
    location.setSegment(segment_->name());
    location.setOffset(64);
    location.setDtype(wire::DType::FLOAT32);
    location.initShape(1).set(0, 4);
    return OkStatus();
  };
  const auto core = controller.Open();
  BulkCopier bulk(*core, control::ZmqContext::Create(), control::NewKeyPair(), true,
                  "inproc://nowhere");
  WholeTensors whole(*core, bulk);
  HostTensors others(*core, bulk, whole);
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  std::fill_n(tensor->Elements<float>()->data(), 4, 3.5f);
  const StatusOr<DRef> ref = others.MoveToWorker0(*std::move(tensor));
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(reinterpret_cast<const float*>(segment_->data() + 64)[3], 3.5f);
  EXPECT_EQ(core->Flush(), OkStatus());
  for (const auto& batch : controller.batches) {
    EXPECT_THAT(batch.commands, Not(Contains(wire::Command::END_LOAN)));
  }
}

TEST_F(HostTensorsTest, WhatCouldNotBeHandedOverKeepsItsElements) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  controller_.SayFailed(0, Internal("why"));
  EXPECT_EQ(core_->Look().code(), StatusCode::kInternal);
  EXPECT_EQ(tensors_->MoveToWorker0(*std::move(tensor)).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(tensor->is_lent());
  EXPECT_EQ(tensor->count(), 4u);
  ASSERT_EQ(core_->Reset(), OkStatus());
  EXPECT_TRUE(tensors_->MoveToWorker0(*std::move(tensor)).ok());
  EXPECT_TRUE(tensor->IsNull());
}

TEST_F(HostTensorsTest, ItIsDealtOutFromWorker0Alone) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  for (const auto kind : {OperationKind::kBroadcast, OperationKind::kScatter}) {
    const Status refused = tensors_->DealOut(kind, *std::move(tensor), {.team = {1, 0}}).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
    EXPECT_FALSE(tensor->IsNull());
  }
  EXPECT_TRUE(
      tensors_->DealOut(OperationKind::kBroadcast, *std::move(tensor), {.in_group = true}).ok());
}

TEST_F(HostTensorsTest, ItIsNotDealtOutInEachGroup) {
  tensors_.reset();
  whole_.reset();
  bulk_.reset();
  core_.reset();
  controller_.num_groups = 2;
  core_ = controller_.Open();
  MakeParts(/*map_memory=*/true);
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensors_->DealOut(OperationKind::kBroadcast, *std::move(tensor), {.in_group = true})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(tensor->IsNull());
}

TEST_F(HostTensorsTest, ALayoutThatItCannotBeBroughtIntoLeavesItWhereItIs) {
  StatusOr<SharedTensor> tensor = Make();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const auto layout = plan::Layout::Make({4}, DType::kFloat32, *plan::Mesh::Line({0, 1}),
                                         {plan::Placement::Partial(Reduction::kAvg)});
  ASSERT_TRUE(layout.ok()) << layout.status();
  const Status refused = tensors_->Place(*std::move(tensor), *layout).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
  EXPECT_FALSE(tensor->IsNull());
}

TEST_F(HostTensorsTest, ANullOneHasNoElements) {
  const SharedTensor null;
  EXPECT_EQ(null.count(), 0u);
  EXPECT_EQ(null.size_bytes(), 0u);
  EXPECT_EQ(null.Elements<uint8_t>().status().code(), StatusCode::kInvalidArgument);
}

// They were made of what the program has overwritten since.
TEST_F(HostTensorsTest, CopiesInOtherLayoutsAreDroppedWhenItIsHandedBack) {
  const DRef kept = Handed(Make());
  StatusOr<SharedTensor> taken = tensors_->MoveFromWorker0(kept);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto layout = plan::Layout::Make({4}, DType::kFloat32, *plan::Mesh::Line({0, 1}),
                                         {plan::Placement::Shard(0)});
  ASSERT_TRUE(layout.ok()) << layout.status();
  const StatusOr<DRef> copy = IssueEmpty(*core_, {4}, DType::kFloat32, std::nullopt);
  ASSERT_TRUE(copy.ok()) << copy.status();
  core_->SetLayout(*copy, std::make_shared<const plan::Layout>(*layout));
  core_->KeepCopy(kept, *copy, core_->generation(), core_->WritesTo(kept));
  ASSERT_FALSE(core_->CopyOf(kept, *layout, core_->generation()).IsNull());
  ASSERT_TRUE(tensors_->MoveToWorker0(*std::move(taken)).ok());
  EXPECT_TRUE(core_->CopyOf(kept, *layout, core_->generation()).IsNull());
}

// It is no sign that the next one has waited.
TEST_F(HostTensorsTest, WhatRidesAlongHasNotWaited) {
  const DRef kept = Handed(Make());
  EXPECT_EQ(core_->Flush(), OkStatus());
  EXPECT_EQ(controller_.batches.back().commands, std::vector{wire::Command::END_LOAN});
  EXPECT_EQ(controller_.batches.back().waited_nanos, 0u);
}

}  // namespace
}  // namespace lockstep::client
