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

  void SetUp() override {
    const std::string name = std::string(SharedSegment::kNamePrefix) + "copies-" + RandomHex(8);
    auto segment = SharedSegment::Create(name, 4096);
    ASSERT_TRUE(segment.ok()) << segment.status();
    segment_ = *std::move(segment);
    controller_.locate = [name](wire::TensorLocation::Builder location) {
      location.setSegment(name);
      location.setDtype(wire::DType::FLOAT32);
      location.initShape(1).set(0, kElements);
      return OkStatus();
    };
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
  const std::array<float, kElements> values = {1, 2, 3, 4};
  std::memcpy(segment_->data(), values.data(), sizeof values);
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(into_, values);
  const int asked = controller_.locates;
  ASSERT_EQ(Read(), OkStatus());
  EXPECT_EQ(controller_.locates, asked);
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
  EXPECT_EQ(copier_->Describe(tensor_).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::client
