#include "services/worker/execute/layout_command.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/plan/layout_codec.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using plan::Layout;

// Writes to its second argument.
class WritesToItsSecond final : public module::Function {
 public:
  const std::string& name() const override { return name_; }
  bool MayWriteTo(size_t argument) const override { return argument == 1; }
  Status Call(const module::CallContext&, absl::Span<const registers::Value>,
              registers::Value*) override {
    return OkStatus();
  }

 private:
  const std::string name_ = "writes";
};

class LayoutCommandTest : public testing::Test {
 protected:
  static constexpr RegisterId kTensor{5, 1};

  LayoutCommandTest() { EXPECT_EQ(session_.Write(kTensor, int64_t{1}), OkStatus()); }

  static Layout Rows() {
    return *Layout::Make({4, 2}, DType::kFloat32, *plan::Mesh::Line({2, 0}),
                         {plan::Placement::Shard(0)});
  }
  Status Declare(const Layout* layout, int world_size = 3) {
    capnp::MallocMessageBuilder message;
    auto declare = message.initRoot<wire::Command>().initDeclareLayout();
    declare.setTensor(kTensor.Packed());
    if (layout != nullptr) plan::WriteLayout(declare.initLayout(), *layout);
    return DeclareLayout(session_, declare.asReader(), world_size);
  }
  control::Frame Find(Rank rank) {
    capnp::MallocMessageBuilder message;
    auto find = message.initRoot<wire::Command>().initFindLayout();
    find.setTensor(kTensor.Packed());
    return FindLayout(session_, find.asReader(), rank);
  }
  // That of a call with the value as this argument.
  bool IsForgotten(size_t position, const Value& value) {
    const Layout rows = Rows();
    EXPECT_EQ(Declare(&rows), OkStatus());
    capnp::MallocMessageBuilder message;
    control::WriteValue(message.initRoot<wire::Value>(), value);
    ForgetWritten(session_, WritesToItsSecond(), position,
                  message.getRoot<wire::Value>().asReader());
    return session_.registers().LayoutOf(kTensor) == nullptr;
  }

  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
  SessionState session_{control::SessionRecord{.id = SessionId(7)}, &registers_};
};

TEST_F(LayoutCommandTest, WhatIsDeclaredIsFoundOnTheFirstRankOfItsMesh) {
  EXPECT_EQ(Find(2).size(), 0u);
  const Layout rows = Rows();
  ASSERT_EQ(Declare(&rows), OkStatus());
  EXPECT_EQ(Find(0).size(), 0u) << "one answer has a body";
  EXPECT_EQ(Find(1).size(), 0u);
  EXPECT_EQ(control::DecodeMessage<wire::Layout>(
                Find(2),
                [&](wire::Layout::Reader reader) -> Status {
                  LOCKSTEP_ASSIGN_OR_RETURN(const Layout found, plan::ReadLayout(reader, 3));
                  EXPECT_EQ(found, rows);
                  return OkStatus();
                }),
            OkStatus());
  ASSERT_EQ(Declare(nullptr), OkStatus());
  EXPECT_EQ(Find(2).size(), 0u);
}

TEST_F(LayoutCommandTest, ALayoutOfAnotherWorldIsRefused) {
  const Layout rows = Rows();
  EXPECT_EQ(Declare(&rows, 2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_.registers().LayoutOf(kTensor), nullptr);
}

TEST_F(LayoutCommandTest, AFunctionThatMayWriteToAnArgumentEndsWhatIsKnownOfIt) {
  const Value tensor(RegisterRef{SessionId(7), kTensor, nullptr});
  EXPECT_FALSE(IsForgotten(0, tensor));
  EXPECT_TRUE(IsForgotten(1, tensor));
  EXPECT_TRUE(IsForgotten(1, Value(Value::List{Value(3), tensor})));
  EXPECT_TRUE(IsForgotten(1, Value(Value::Map{{"x", Value(Value::List{tensor})}})));
  EXPECT_FALSE(IsForgotten(1, Value(3)));
}

TEST_F(LayoutCommandTest, SoDoesACallOfPlainArguments) {
  constexpr size_t kArguments = 2;
  constexpr size_t kWords = control::PlainCallWriter::Words(kArguments, 0);
  const Layout rows = Rows();
  const auto is_forgotten = [&](size_t position) {
    EXPECT_EQ(Declare(&rows), OkStatus());
    uint64_t words[kWords];
    control::PlainCallWriter writer(words, kWords, {}, {}, kArguments);
    writer.AddRegister(kTensor);
    writer.AddInt64(3);
    const control::PlainCall call(reinterpret_cast<const capnp::word*>(words));
    for (const control::PlainArgument argument : call.arguments()) {
      ForgetWritten(session_, WritesToItsSecond(), position, argument);
    }
    return session_.registers().LayoutOf(kTensor) == nullptr;
  };
  EXPECT_FALSE(is_forgotten(0));
  EXPECT_TRUE(is_forgotten(1));
}

}  // namespace
}  // namespace lockstep::worker
