#include "runtime/client/bulk_copy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/value_codec.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

// Worker-0's tensors are all at the beginning of one segment.
class BulkCopyTest : public testing::Test {
 protected:
  static constexpr int kElements = 4;
  static constexpr std::array<float, kElements> kValues = {1, 2, 3, 4};
  static constexpr std::array<float, kElements> kOthers = {5, 6, 7, 8};

  void SetUp() override {
    const std::string name = std::string(SharedSegment::kNamePrefix) + "copies-" + RandomHex(8);
    auto segment = SharedSegment::Create(name, 4096);
    ASSERT_TRUE(segment.ok()) << segment.status();
    segment_ = *std::move(segment);
    BringNoBytes();
    core_ = controller_.Open();
    MakeCopier(/*map_memory=*/true);
    auto made = core_->IssueNaming([](wire::Command::Builder command, RegisterId result) {
      auto empty = command.initEmpty();
      empty.setDtype(wire::DType::FLOAT32);
      empty.initShape(1).set(0, kElements);
      empty.setResult(result.Packed());
    });
    ASSERT_TRUE(made.ok()) << made.status();
    tensor_ = *made;
  }
  void MakeCopier(bool map_memory) {
    copier_ = std::make_unique<BulkCopier>(*core_, control::ZmqContext::Create(),
                                           control::NewKeyPair(), map_memory, "inproc://nowhere");
  }
  void BringNoBytes() {
    controller_.locate = [this](wire::TensorLocation::Builder location) {
      Describe(location);
      return OkStatus();
    };
  }
  // Worker-0 answers with so many bytes of them.
  void BringBytes(const std::array<float, kElements>& values, size_t size_bytes = sizeof(values)) {
    controller_.locate = [this, values, size_bytes](wire::TensorLocation::Builder location) {
      Describe(location);
      std::memcpy(location.initBytes(static_cast<unsigned>(size_bytes)).begin(), values.data(),
                  size_bytes);
      return OkStatus();
    };
  }
  void Describe(wire::TensorLocation::Builder location) const {
    location.setSegment(segment_->name());
    location.setDtype(wire::DType::FLOAT32);
    location.initShape(1).set(0, kElements);
  }
  Status Read() { return copier_->Read({into_.data(), into_.size(), DType::kFloat32}, tensor_); }
  Status Sync() {
    return core_->Ask(-1, [](wire::Command::Builder command) { command.setSync(); }).status();
  }

  FakeController controller_;
  std::unique_ptr<SharedSegment> segment_;
  std::unique_ptr<SessionCore> core_;
  std::unique_ptr<BulkCopier> copier_;
  DRef tensor_;
  std::array<float, kElements> into_{};
};

TEST_F(BulkCopyTest, WhereATensorIsIsAskedForOnce) {
  std::memcpy(segment_->data(), kValues.data(), sizeof kValues);
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(into_, kValues);
  const int asked = controller_.locates;
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(controller_.locates, asked);
}

// Outputs that a function returns are in other memory then.
TEST_F(BulkCopyTest, WhereATensorIsIsAskedForAgainAfterAPlanWasExecuted) {
  ASSERT_EQ(Read(), OkStatus());
  const int asked = controller_.locates;
  ASSERT_EQ(Sync(), OkStatus());
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(controller_.locates, asked);
  ASSERT_EQ(core_->IssueOperationIn(
                core_->generation(), {OperationKind::kAllToAll, false, {0}},
                [](wire::Command::Builder command) { command.initExecute().setBound(1); }),
            OkStatus());
  ASSERT_EQ(Sync(), OkStatus());
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(controller_.locates, asked + 1);
}

// Worker-0 has no bulk socket here.
TEST_F(BulkCopyTest, NoMemoryIsMappedByAClientThatDoesNotWantTo) {
  MakeCopier(/*map_memory=*/false);
  EXPECT_EQ(Read().code(), StatusCode::kUnavailable);
}

// What fails while a stopped peer may still write to it holds no value after the reset, and its
// memory may be another tensor's by then.
TEST_F(BulkCopyTest, WhereATensorIsIsAskedForAgainAfterAReset) {
  ASSERT_EQ(Read(), OkStatus());
  controller_.locate = [](wire::TensorLocation::Builder) -> Status {
    return NotFound("the register was freed");
  };
  ASSERT_EQ(core_->Reset(), OkStatus());
  ASSERT_EQ(Sync(), OkStatus());
  const int asked = controller_.locates;
  EXPECT_EQ(Read().code(), StatusCode::kNotFound);
  EXPECT_EQ(controller_.locates, asked + 1);
  EXPECT_EQ(copier_->Read(tensor_).status().code(), StatusCode::kNotFound);
}

TEST_F(BulkCopyTest, WhatComesWithTheFirstAnswerIsNotAskedForAgain) {
  BringBytes(kValues);
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(into_, kValues);
  EXPECT_EQ(controller_.locates, 1);
  EXPECT_EQ(controller_.bytes_wish, wire::BytesWish::ALWAYS);
}

// Worker-0 sees by then that the client maps its memory.
TEST_F(BulkCopyTest, MemoryThatWasMappedForAFirstAnswerIsReadFromTheSecondOn) {
  BringBytes(kValues);
  ASSERT_EQ(Read(), OkStatus());
  std::memcpy(segment_->data(), kOthers.data(), sizeof kOthers);
  BringNoBytes();
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(into_, kOthers);
  EXPECT_EQ(controller_.bytes_wish, wire::BytesWish::UNLESS_SHARED);
  const int asked = controller_.locates;
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(controller_.locates, asked);
}

TEST_F(BulkCopyTest, SmallTensorsComeWithTheAnswerWhereNoMemoryIsShared) {
  MakeCopier(/*map_memory=*/false);
  for (const auto& values : {kValues, kOthers}) {
    BringBytes(values);
    const int asked = controller_.locates;
    ASSERT_EQ(Read(), OkStatus());
    EXPECT_EQ(into_, values);
    EXPECT_EQ(controller_.locates, asked + 1);
    EXPECT_EQ(controller_.bytes_wish, wire::BytesWish::ALWAYS);
  }
  const StatusOr<HostTensor> tensor = copier_->Read(tensor_);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, Shape({kElements}));
  EXPECT_EQ(*tensor->Elements<float>(), std::vector<float>(kOthers.begin(), kOthers.end()));
}

TEST_F(BulkCopyTest, NoBytesAreAskedForToWriteToATensor) {
  ASSERT_EQ(copier_->Write(tensor_, ViewOf(kValues.data(), kValues.size())), OkStatus());
  EXPECT_EQ(controller_.bytes_wish, wire::BytesWish::NEVER);
}

TEST_F(BulkCopyTest, AnAnswerWithOtherBytesThanTheTensorHasIsNotRead) {
  BringBytes(kValues, sizeof kValues - 1);
  EXPECT_EQ(Read().code(), StatusCode::kInternal);
}

TEST_F(BulkCopyTest, ABufferThatDoesNotFitWhatComesIsNotWrittenTo) {
  BringBytes(kValues);
  std::array<float, 2> small = {8, 8};
  const Status status = copier_->Read(ViewOf(small.data(), small.size()), tensor_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(small, (std::array<float, 2>{8, 8}));
}

}  // namespace
}  // namespace lockstep::client
