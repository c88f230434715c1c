#include "runtime/control/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/float_convert.h"

namespace lockstep {
namespace {

TEST(ValueTest, DefaultIsNone) {
  EXPECT_TRUE(Value().Is<None>());
  EXPECT_EQ(Value(), Value(None()));
}

TEST(ValueTest, LiteralsBecomeTheTypeTheyLookLike) {
  EXPECT_EQ(TypeName(Value(true)), "bool");
  EXPECT_EQ(TypeName(Value(7)), "int64");
  EXPECT_EQ(TypeName(Value(7u)), "int64");
  EXPECT_EQ(TypeName(Value('a')), "int64");
  EXPECT_EQ(TypeName(Value(1.5)), "float64");
  EXPECT_EQ(TypeName(Value(1.5f)), "float64");
  EXPECT_EQ(TypeName(Value("text")), "text");
  EXPECT_EQ(TypeName(Value(std::string("text"))), "text");
}

TEST(ValueTest, EveryKindHasItsName) {
  EXPECT_EQ(TypeName(Value()), "none");
  EXPECT_EQ(TypeName(Value(Bytes{"x"})), "bytes");
  EXPECT_EQ(TypeName(Value(DType::kInt8)), "dtype");
  EXPECT_EQ(TypeName(Value(Device{})), "device");
  EXPECT_EQ(TypeName(Value(Shape{1})), "shape");
  EXPECT_EQ(TypeName(Value(RegisterId{1, 2})), "register");
  EXPECT_EQ(TypeName(Value(RegisterRef{SessionId(1), {1, 2}})), "register");
  EXPECT_EQ(TypeName(Value(HostTensor{})), "tensor");
  EXPECT_EQ(TypeName(Value(Value::List{})), "list");
  EXPECT_EQ(TypeName(Value(Value::Map{})), "map");
  EXPECT_EQ(TypeName(Value(RemoteObject{"f"})), "object");
}

TEST(ValueTest, TextAndBytesOfTheSameCharactersDiffer) { EXPECT_NE(Value("x"), Value(Bytes{"x"})); }

TEST(ValueTest, IntegersKeepTheirFullRange) {
  EXPECT_EQ(*Value(std::numeric_limits<int64_t>::min()).As<int64_t>(),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*Value(std::numeric_limits<uint64_t>::max()).As<int64_t>(), -1);
}

TEST(ValueTest, RendersForPeople) {
  EXPECT_EQ(ToString(Value()), "none");
  EXPECT_EQ(ToString(Value(true)), "true");
  EXPECT_EQ(ToString(Value(-3)), "-3");
  EXPECT_EQ(ToString(Value(0.5)), "0.5");
  EXPECT_EQ(ToString(Value("hi")), "\"hi\"");
  EXPECT_EQ(ToString(Value(Bytes{"abc"})), "3 bytes");
  EXPECT_EQ(ToString(Value(DType::kBFloat16)), "bfloat16");
  EXPECT_EQ(ToString(Value(Device{DeviceType::kCuda, 3})), "cuda:3");
  EXPECT_EQ(ToString(Value(Shape{2, 3})), "[2, 3]");
  EXPECT_EQ(ToString(Value(RemoteObject{"function f"})), "<function f>");
  EXPECT_EQ(ToString(Value(Value::List{1, "a", Value::List{}})), "[1, \"a\", []]");
  EXPECT_EQ(ToString(Value(Value::Map{{"b", 2}, {"a", Value()}})), "{a: none, b: 2}");
}

TEST(ValueTest, TensorsShowTheirFirstElements) {
  const std::vector<float> elements = {1, 2.5f, 3};
  const Value value(HostTensor::Of<float>({3}, elements));
  EXPECT_EQ(ToString(value), "float32 [3] {1, 2.5, 3}");
  EXPECT_EQ(ToString(value, 2), "float32 [3] {1, 2.5, ...}");
  EXPECT_EQ(ToString(value, 0), "float32 [3] {, ...}");
  EXPECT_EQ(ToString(Value(HostTensor{DType::kFloat32, {0}, ""})), "float32 [0] {}");
}

TEST(ValueTest, TensorsOfEveryDTypeCanBeShown) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = *DTypeFromNumber(number);
    const HostTensor tensor{dtype, {2}, std::string(2 * SizeOf(dtype), '\0')};
    EXPECT_THAT(ToString(Value(tensor)), testing::HasSubstr("{0, 0}")) << dtype;
  }
}

TEST(ValueTest, TensorsOfNarrowFloatsShowNumbers) {
  const auto show = [](auto narrow) {
    const std::vector<decltype(narrow)> elements = {narrow};
    return ToString(Value(HostTensor::Of<decltype(narrow)>({1}, elements)));
  };
  EXPECT_EQ(show(ToFloat16(-1.5f)), "float16 [1] {-1.5}");
  EXPECT_EQ(show(ToBFloat16(-1.5f)), "bfloat16 [1] {-1.5}");
  EXPECT_EQ(show(ToFloat8E4M3(-1.5f)), "float8_e4m3fn [1] {-1.5}");
  EXPECT_EQ(show(ToFloat8E5M2(-1.5f)), "float8_e5m2 [1] {-1.5}");
}

static_assert(!std::is_constructible_v<Value, int*>, "a pointer is no truth value");
static_assert(!std::is_constructible_v<Value, const void*>);
static_assert(std::is_constructible_v<Value, char*>, "text");

TEST(HostTensorTest, ElementsComeBackAsTheyWent) {
  const std::vector<int16_t> elements = {-1, 0, 32767};
  const HostTensor tensor = HostTensor::Of<int16_t>({3}, elements);
  EXPECT_EQ(tensor.dtype, DType::kInt16);
  EXPECT_EQ(tensor.data.size(), 6u);
  EXPECT_EQ(*tensor.Elements<int16_t>(), elements);
}

TEST(HostTensorTest, ElementsOfAnotherTypeAreRefused) {
  const HostTensor tensor = HostTensor::Of<float>({1}, {{1.0f}});
  const auto elements = tensor.Elements<double>();
  EXPECT_EQ(elements.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(elements.status()), testing::HasSubstr("float32, not float64"));
}

TEST(HostTensorTest, EmptyTensorHasNoElements) {
  EXPECT_TRUE(HostTensor::Of<double>({0, 5}, {}).Elements<double>()->empty());
}

}  // namespace
}  // namespace lockstep
