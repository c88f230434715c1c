#include "runtime/control/value_codec.h"

#include <capnp/message.h>
#include <capnp/schema.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/control/message_codec.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

Frame Encode(const Value& value) {
  return EncodeMessage<wire::Value>(
      [&](wire::Value::Builder builder) { WriteValue(builder, value); });
}

StatusOr<Value> Decode(const Frame& frame) {
  Value value;
  LOCKSTEP_RETURN_IF_ERROR(
      DecodeMessage<wire::Value>(frame, [&](wire::Value::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(value, ReadValue(reader));
        return OkStatus();
      }));
  return value;
}

// What comes back of a message that `fill` wrote by hand.
template <typename Fill>
Status DecodeHandMade(Fill fill) {
  return Decode(EncodeMessage<wire::Value>(fill)).status();
}

Value Nested(int depth, const Value& leaf, bool maps) {
  Value value = leaf;
  for (int i = 0; i < depth; ++i) {
    value = maps ? Value(Value::Map{{"k", value}}) : Value(Value::List{value});
  }
  return value;
}

std::vector<Value> EveryKind() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      Value(),
      true,
      false,
      0,
      std::numeric_limits<int64_t>::min(),
      std::numeric_limits<int64_t>::max(),
      -0.0,
      std::numeric_limits<double>::infinity(),
      std::numeric_limits<double>::denorm_min(),
      "",
      "text with ümläuts",
      std::string("zero\0inside", 11),
      Bytes{""},
      Bytes{std::string("\0\xff\n", 3)},
      DType::kBool,
      DType::kFloat8E5M2,
      Device{DeviceType::kCpu, 0},
      Device{DeviceType::kCuda, 7},
      Shape{},
      Shape{0},
      Shape{1, 2, 3, 4, 5, 6, 7},
      RegisterId{0xffffffff, 0xfffffffe},
      HostTensor{DType::kFloat32, {}, std::string("\0\0\x80\x3f", 4)},
      HostTensor{DType::kInt64, {0, 3}, ""},
      HostTensor::Of<float>({2, 2}, {{1, 2, nan, 4}}),
      Value::List{},
      Value::List{1, "two", Value::List{3.0, Value()}, Value::Map{{"x", Bytes{"y"}}}},
      Value::Map{},
      Value::Map{{"", 1}, {"a", Value::List{Shape{4}}}, {"b", Value::Map{{"c", DType::kInt8}}}},
      RemoteObject{"function f"},
  };
}

TEST(ValueCodecTest, EveryKindCrossesTheWire) {
  for (const Value& value : EveryKind()) {
    const StatusOr<Value> read = Decode(Encode(value));
    ASSERT_TRUE(read.ok()) << ToString(value) << ": " << read.status();
    EXPECT_EQ(*read, value) << ToString(value);
    EXPECT_EQ(TypeName(*read), TypeName(value));
  }
}

TEST(ValueCodecTest, EveryDTypeCrossesTheWire) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = *DTypeFromNumber(number);
    EXPECT_EQ(*Decode(Encode(dtype))->As<DType>(), dtype);
    const HostTensor tensor{dtype, {3}, std::string(3 * SizeOf(dtype), '\7')};
    EXPECT_EQ(*Decode(Encode(tensor))->As<HostTensor>(), tensor) << dtype;
  }
}

TEST(ValueCodecTest, LargeValuesCrossTheWire) {
  const Value bytes(Bytes{std::string(5'000'001, 'b')});
  EXPECT_EQ(*Decode(Encode(bytes)), bytes);
  Value::List list;
  for (int i = 0; i < 20'000; ++i) list.push_back(i % 2 == 0 ? Value(i) : Value("odd"));
  EXPECT_EQ(*Decode(Encode(list)), Value(list));
}

TEST(ValueCodecTest, DepthIsLimited) {
  EXPECT_TRUE(CheckDepth(1).ok());
  for (bool maps : {false, true}) {
    EXPECT_TRUE(CheckDepth(Nested(kMaxValueDepth, 1, maps)).ok());
    const Status status = CheckDepth(Nested(kMaxValueDepth + 1, 1, maps));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(lockstep::Message(status), HasSubstr("9"));
  }
  // The deepest branch counts, wherever it is.
  EXPECT_FALSE(CheckDepth(Value::List{1, Nested(kMaxValueDepth, 1, false), 2}).ok());
}

// The deepest value that CheckDepth lets through fits the readers' limit, whatever its leaf is.
TEST(ValueCodecTest, DeepestAllowedValueCanBeRead) {
  for (const Value& leaf : EveryKind()) {
    if (!CheckDepth(leaf).ok() || leaf.Is<Value::List>() || leaf.Is<Value::Map>()) continue;
    for (bool maps : {false, true}) {
      const Value value = Nested(kMaxValueDepth, leaf, maps);
      const StatusOr<Value> read = Decode(Encode(value));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, value);
    }
  }
}

TEST(ValueCodecTest, MuchDeeperMessagesAreRefused) {
  const StatusOr<Value> read = Decode(Encode(Nested(100, 1, false)));
  EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
}

TEST(ValueCodecTest, PayloadIsWhatGrowsWithTheUsersData) {
  EXPECT_EQ(PayloadBytes(Value()), 0u);
  EXPECT_EQ(PayloadBytes(7), 0u);
  EXPECT_EQ(PayloadBytes("four"), 4u);
  EXPECT_EQ(PayloadBytes(Bytes{"fives"}), 5u);
  EXPECT_EQ(PayloadBytes(HostTensor{DType::kInt16, {3}, "123456"}), 6u);
  EXPECT_EQ(PayloadBytes(Value::List{"a", Value::Map{{"key", Bytes{"bc"}}}, 1.5}),
            6u + 5 * kPayloadElementBytes)
      << "three elements, and a key and a value";
}

TEST(ValueCodecTest, TooManyDimensionsAreRefused) {
  const auto with_dims = [](unsigned count) {
    return DecodeHandMade([=](wire::Value::Builder value) {
      auto dims = value.initShape(count);
      for (unsigned i = 0; i < count; ++i) dims.set(i, 1);
    });
  };
  EXPECT_TRUE(with_dims(Shape::kMaxDims).ok());
  const Status status = with_dims(Shape::kMaxDims + 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(lockstep::Message(status), HasSubstr("33"));
}

TEST(ValueCodecTest, NegativeAndAbsurdExtentsAreRefused) {
  const auto with = [](std::initializer_list<int64_t> extents) {
    return DecodeHandMade([=](wire::Value::Builder value) {
      auto dims = value.initShape(static_cast<unsigned>(extents.size()));
      unsigned i = 0;
      for (int64_t extent : extents) dims.set(i++, extent);
    });
  };
  EXPECT_EQ(with({2, -1}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(with({int64_t{1} << 40, int64_t{1} << 40}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(with({std::numeric_limits<int64_t>::max(), 2}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(with({0, int64_t{1} << 62, int64_t{1} << 62}).code(), StatusCode::kInvalidArgument);
}

TEST(ValueCodecTest, TensorsOfTheWrongSizeAreRefused) {
  for (size_t bytes : {0, 11, 13, 24}) {
    const Status status = DecodeHandMade([&](wire::Value::Builder value) {
      HostTensor tensor{DType::kFloat32, {3}, std::string(bytes, '\0')};
      WriteHostTensor(value.initTensor(), tensor);
    });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(lockstep::Message(status), HasSubstr("has 12 bytes")) << bytes;
  }
}

TEST(ValueCodecTest, UnknownDTypesAndDevicesAreRefused) {
  EXPECT_EQ(DecodeHandMade([](wire::Value::Builder value) {
              value.setDtype(static_cast<wire::DType>(kDTypeCount));
            }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodeHandMade([](wire::Value::Builder value) {
              value.initTensor().setDtype(static_cast<wire::DType>(999));
            }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      DecodeHandMade([](wire::Value::Builder value) { value.initDevice().setType(200); }).code(),
      StatusCode::kInvalidArgument);
}

TEST(ValueCodecTest, MapWithAKeyTwiceIsRefused) {
  const Status status = DecodeHandMade([](wire::Value::Builder value) {
    auto map = value.initMap(2);
    for (unsigned i = 0; i < 2; ++i) {
      map[i].setKey("same");
      map[i].initValue().setInt64(i);
    }
  });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(lockstep::Message(status), HasSubstr("\"same\" twice"));
}

TEST(ValueCodecTest, EachOperationOfTheSchemaHasARow) {
  EXPECT_EQ(capnp::Schema::from<wire::CollectiveKind>().getEnumerants().size(), kOperationCount);
}

TEST(ValueCodecTest, FlippedBitsNeverEscape) {
  std::mt19937 random(7);
  for (const Value& value : EveryKind()) {
    const Frame frame = Encode(value);
    for (int round = 0; round < 1000; ++round) {
      std::vector<uint64_t> words(frame.size() / 8);
      std::memcpy(words.data(), frame.data(), frame.size());
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
        words[random() % words.size()] ^= uint64_t{1} << (random() % 64);
      }
      const StatusOr<Value> read = Decode(Frame(nullptr, words.data(), frame.size()));
      if (!read.ok()) {
        EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << read.status();
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::control
