#include "services/worker/values/value_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/control/message_codec.h"
#include "runtime/control/plain_call.h"
#include "runtime/control/value_codec.h"
#include "runtime/tensor/storage.h"
#include "tests/unit/services/worker/cuda_tensor.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

constexpr size_t kMaxBytes = 1000;

class Thing : public registers::Object {
 public:
  Kind kind() const override { return Kind::kOpaque; }
  std::string Describe() const override { return "a thing"; }
};

class ValueTransferTest : public testing::Test {
 protected:
  // As a worker reads what a client sends.
  StatusOr<registers::Value> In(const Value& value) {
    const control::Frame frame = control::EncodeMessage<wire::Value>(
        [&](wire::Value::Builder builder) { control::WriteValue(builder, value); });
    registers::Value read;
    LOCKSTEP_RETURN_IF_ERROR(
        control::DecodeMessage<wire::Value>(frame, [&](wire::Value::Reader reader) -> Status {
          LOCKSTEP_ASSIGN_OR_RETURN(read, FromWire(reader, registers_, places_));
          return OkStatus();
        }));
    return read;
  }
  // As a client reads what a worker sends.
  StatusOr<Value> Out(const registers::Value& value) {
    Status written;
    const control::Frame frame =
        control::EncodeMessage<wire::Value>([&](wire::Value::Builder builder) {
          written = ToWire(value, kMaxBytes, places_, builder);
        });
    LOCKSTEP_RETURN_IF_ERROR(written);
    Value read;
    LOCKSTEP_RETURN_IF_ERROR(
        control::DecodeMessage<wire::Value>(frame, [&](wire::Value::Reader reader) -> Status {
          LOCKSTEP_ASSIGN_OR_RETURN(read, control::ReadValue(reader));
          return OkStatus();
        }));
    return read;
  }
  tensor::Tensor NewTensor(const Shape& shape) {
    tensor::Tensor tensor = *tensor::Tensor::Empty(*allocator_, DType::kUInt8, shape);
    std::memset(tensor.data(), 7, tensor.size_bytes());
    return tensor;
  }

  const std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
  const tensor::Processors places_{host_.get()};
  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
};

TEST_F(ValueTransferTest, EveryKindComesBackAsItWent) {
  const std::vector<Value> values = {
      Value(),
      true,
      int64_t{-5},
      2.5,
      std::string("te\0xt", 5),
      Bytes{std::string("\0\xff", 2)},
      DType::kBFloat16,
      Device{DeviceType::kCuda, 1},
      Shape{2, 0, 3},
      HostTensor::Of<float>({2}, {{1, 2}}),
      HostTensor{DType::kInt8, {0}, ""},
      Value::List{1, "two", Value::List{}},
      Value::Map{{"a", 1}, {std::string("b\0c", 3), Value::Map{{"d", Value()}}}},
  };
  for (const Value& value : values) {
    const StatusOr<registers::Value> in = In(value);
    ASSERT_TRUE(in.ok()) << ToString(value) << ": " << in.status();
    const StatusOr<Value> out = Out(*in);
    ASSERT_TRUE(out.ok()) << ToString(value) << ": " << out.status();
    EXPECT_EQ(*out, value) << ToString(value);
  }
}

TEST_F(ValueTransferTest, RegistersBecomeTheirValuesWithoutACopy) {
  const tensor::Tensor tensor = NewTensor({4});
  ASSERT_TRUE(registers_.Write({3, 1}, tensor).ok());
  const auto value = In(Value::List{RegisterId{3, 1}, 5});
  ASSERT_TRUE(value.ok()) << value.status();
  const auto& list = **value->As<std::shared_ptr<const registers::List>>();
  EXPECT_EQ(list[0].As<tensor::Tensor>()->data(), tensor.data());
}

TEST_F(ValueTransferTest, BadRegistersAreErrorsWhereverTheyAre) {
  ASSERT_TRUE(registers_.Write({3, 1}, int64_t{1}).ok());
  ASSERT_TRUE(registers_.Kill({3, 1}).ok());
  for (const RegisterId id : {RegisterId{3, 1}, RegisterId{3, 2}, RegisterId{99, 1}}) {
    EXPECT_EQ(In(id).status().code(), StatusCode::kNotFound) << id;
    EXPECT_EQ(In(Value::List{1, id}).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(In(Value::Map{{"k", id}}).status().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(In(RegisterId{}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ValueTransferTest, ObjectsCannotBeSentToAWorker) {
  EXPECT_EQ(In(RemoteObject{"a function"}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ValueTransferTest, TensorsOfTheWrongSizeAreRefused) {
  const Status status = In(HostTensor{DType::kInt32, {2}, "1234567"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("int32 [2]"));
}

TEST_F(ValueTransferTest, ObjectsOfAWorkerAreDescribed) {
  const auto value =
      Out(registers::Value(std::shared_ptr<registers::Object>(std::make_shared<Thing>())));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->As<RemoteObject>()->description, "a thing");
}

TEST_F(ValueTransferTest, TensorsOutsideOfHostMemoryAreNotRead) {
  const Status status = Out(CudaTensor()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("cuda:3"));
}

TEST_F(ValueTransferTest, LargeTensorsDoNotTravelByValue) {
  EXPECT_TRUE(Out(NewTensor({1000})).ok());
  const Status status = Out(NewTensor({1001})).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("CopyFromWorker0"));
}

// A list of small tensors is as large as a large one.
TEST_F(ValueTransferTest, TheLimitIsForAllTensorsOfAValueTogether) {
  auto list = std::make_shared<registers::List>();
  list->push_back(NewTensor({600}));
  EXPECT_TRUE(Out(registers::Value(std::shared_ptr<const registers::List>(list))).ok());
  list->push_back(list->front());
  const Status status =
      Out(registers::Value(std::shared_ptr<const registers::List>(list))).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

// Each register holds the one before it ten times: 20 bytes here, 10^8 elements on the wire.
TEST_F(ValueTransferTest, ListsThatGrowOnTheWireAreRefused) {
  Value::List tenfold(10, Value(1));
  for (uint32_t i = 1; i <= 8; ++i) {
    const StatusOr<registers::Value> value = In(tenfold);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_TRUE(registers_.Write({i, 1}, registers::Value(*value)).ok());
    tenfold.assign(10, Value(RegisterId{i, 1}));
  }
  const StatusOr<const registers::Value*> huge = registers_.Read({8, 1});
  ASSERT_TRUE(huge.ok());
  EXPECT_EQ(Out(**huge).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(ValueTransferTest, RegistersCannotNestWithoutBound) {
  ASSERT_TRUE(registers_.Write({0, 1}, int64_t{1}).ok());
  uint32_t last = 0;
  StatusOr<registers::Value> value = registers::Value();
  do {
    const Value inner(RegisterId{last, 1});
    value = last % 2 == 0 ? In(Value::List{inner}) : In(Value::Map{{"k", inner}});
    if (value.ok()) {
      ASSERT_TRUE(registers_.Write({++last, 1}, registers::Value(*value)).ok());
    }
  } while (value.ok() && last < 100);
  EXPECT_EQ(last, static_cast<uint32_t>(control::kMaxValueDepth));
  EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ValueTransferTest, LongTextCountsToo) {
  EXPECT_TRUE(Out(std::string(1000, 'x')).ok());
  EXPECT_EQ(Out(std::string(1001, 'x')).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Out(registers::Bytes{std::string(1001, 'x')}).status().code(),
            StatusCode::kResourceExhausted);
}

// Both ways from the wire make the same of what they read, and refuse the same.
TEST_F(ValueTransferTest, PlainArgumentsBecomeWhatOthersBecome) {
  const RegisterId held{3, 1};
  ASSERT_TRUE(registers_.Write(held, std::string("held")).ok());
  const std::vector<Shape> shapes = {Shape{}, Shape{2, 0}, Shape{-1},
                                     Shape(std::vector<int64_t>(Shape::kMaxDims + 1, 1))};
  size_t payload = control::PlainCallWriter::TextWords(2);
  for (const Shape& shape : shapes) payload += control::PlainCallWriter::ShapeWords(shape.ndim());
  const size_t arguments = 10 + shapes.size();
  const size_t size = control::PlainCallWriter::Words(arguments, payload);
  std::vector<uint64_t> words(size);
  control::PlainCallWriter writer(words.data(), size, held, held, arguments);
  writer.AddNone();
  writer.AddBool(false);
  writer.AddBool(true);
  writer.AddInt64(-5);
  writer.AddFloat64(2.5);
  writer.AddText("te");
  writer.AddDType(DType::kBFloat16);
  writer.AddDType(static_cast<DType>(99));
  writer.AddRegister(held);
  writer.AddRegister(RegisterId{3, 2});
  for (const Shape& shape : shapes) writer.AddShape(shape);
  const auto all = kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), size);
  ASSERT_EQ(control::FindPlainCall(all), size);

  const control::PlainCall call(all.begin());
  const auto by_library = call.AsCommand().getCall().getArgs();
  unsigned i = 0;
  int refused = 0;
  for (const control::PlainArgument argument : call.arguments()) {
    registers::List plain;
    registers::List other;
    const Status status = AddFromWire(argument, registers_, places_, &plain);
    EXPECT_EQ(status, AddFromWire(by_library[i], registers_, places_, &other)) << i;
    ASSERT_EQ(plain.size(), other.size()) << i;
    ++i;
    if (status.ok()) {
      EXPECT_EQ(*Out(plain[0]), *Out(other[0])) << i;
    } else {
      ++refused;
    }
  }
  EXPECT_EQ(i, arguments);
  EXPECT_EQ(refused, 4);
}

TEST_F(ValueTransferTest, MapWithAKeyTwiceIsRefused) {
  const control::Frame frame = control::EncodeMessage<wire::Value>([&](wire::Value::Builder value) {
    auto map = value.initMap(2);
    map[0].setKey("same");
    map[1].setKey("same");
  });
  const Status status = control::DecodeMessage<wire::Value>(frame, [&](wire::Value::Reader reader) {
    return FromWire(reader, registers_, places_).status();
  });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::worker
