#include "tools/cli/argument.h"

#include <yaml-cpp/yaml.h>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

template <typename T>
HostTensor Tensor(Shape shape, std::vector<T> elements) {
  return HostTensor::Of<T>(std::move(shape), elements);
}

Value Parsed(const std::string& text) {
  const StatusOr<Argument> argument = ParseArgument(text);
  EXPECT_TRUE(argument.ok()) << argument.status();
  if (!argument.ok()) return Value();
  EXPECT_TRUE(std::holds_alternative<Value>(*argument)) << text;
  return std::get<Value>(*argument);
}

std::string ErrorOf(const std::string& text) {
  const StatusOr<Argument> argument = ParseArgument(text);
  EXPECT_EQ(argument.status().code(), StatusCode::kInvalidArgument) << text;
  return Message(argument.status());
}

TEST(ArgumentTest, ScalarsAreTypedByTheirWriting) {
  EXPECT_EQ(Parsed("3"), Value(3));
  EXPECT_EQ(Parsed("-3"), Value(-3));
  EXPECT_EQ(Parsed("3.0"), Value(3.0));
  EXPECT_EQ(Parsed("true"), Value(true));
  EXPECT_EQ(Parsed("none"), Value(None{}));
  EXPECT_EQ(Parsed("~"), Value(None{}));
  EXPECT_EQ(Parsed("f32"), Value(DType::kFloat32));
  EXPECT_EQ(Parsed("bfloat16"), Value(DType::kBFloat16));
  EXPECT_EQ(Parsed("cpu:1"), Value(Device{DeviceType::kCpu, 1}));
  EXPECT_EQ(Parsed("hex:00fF"), Value(Bytes{std::string("\x00\xff", 2)}));
}

TEST(ArgumentTest, TextIsQuotedOrMarked) {
  EXPECT_EQ(Parsed("\"3\""), Value("3"));
  EXPECT_EQ(Parsed("'a b'"), Value("a b"));
  EXPECT_EQ(Parsed("text:f32"), Value("f32"));
  EXPECT_EQ(Parsed("\"\""), Value(""));
}

TEST(ArgumentTest, WordsThatMeanNothingAreErrorsThatSayHowToWriteText) {
  EXPECT_NE(ErrorOf("treu").find("text:treu"), std::string::npos);
  ErrorOf("");
  ErrorOf("f33[2]=1,2");
  ErrorOf("hex:0");
  ErrorOf("hex:zz");
  ErrorOf("[1, 2");
  ErrorOf("!f33 [1]");
  ErrorOf("$x");
}

TEST(ArgumentTest, ListsOfIntegersAreShapes) {
  EXPECT_EQ(Parsed("[2, 3]"), Value(Shape{2, 3}));
  EXPECT_EQ(Parsed("[]"), Value(Shape{}));
  EXPECT_EQ(Parsed("!list [2, 3]"), Value(Value::List{Value(2), Value(3)}));
  EXPECT_EQ(Parsed("[1, \"a\", [2.5]]"),
            Value(Value::List{Value(1), Value("a"), Value(Value::List{Value(2.5)})}));
}

TEST(ArgumentTest, MapsHaveTextKeys) {
  EXPECT_EQ(Parsed("{a: 1, \"b c\": text:x}"),
            Value(Value::Map{{"a", Value(1)}, {"b c", Value("x")}}));
  EXPECT_NE(ErrorOf("{a: 1, a: 2}").find("twice"), std::string::npos);
}

TEST(ArgumentTest, TensorsInOneWord) {
  EXPECT_EQ(Parsed("i32[2,2]=1,2,3,4"), Value(Tensor<int32_t>(Shape{2, 2}, {1, 2, 3, 4})));
  EXPECT_EQ(Parsed("f32[3]=1.5"), Value(Tensor<float>(Shape{3}, {1.5, 1.5, 1.5})));
  EXPECT_EQ(Parsed("f64[]=2"), Value(Tensor<double>(Shape{}, {2})));
  EXPECT_EQ(Parsed("u8[0]="), Value(Tensor<uint8_t>(Shape{0}, {})));
  EXPECT_EQ(Parsed("u8[2, 1]= 7, 8"), Value(Tensor<uint8_t>(Shape{2, 1}, {7, 8})));
  ErrorOf("f32[2]=1,2,3");
  ErrorOf("f32[x]");
  ErrorOf("f32[-1]");
  ErrorOf("f32[2]=1,a");
}

TEST(ArgumentTest, TensorsFromNestedLists) {
  EXPECT_EQ(Parsed("!f32 [[1, 2], [3, 4]]"), Value(Tensor<float>(Shape{2, 2}, {1, 2, 3, 4})));
  EXPECT_EQ(Parsed("!i64 5"), Value(Tensor<int64_t>(Shape{}, {5})));
  EXPECT_NE(ErrorOf("!f32 [[1, 2], [3]]").find("ragged"), std::string::npos);
  ErrorOf("!f32 [1, [2]]");
  ErrorOf("!f32 [[1], 2]");
  ErrorOf("!f32 [a]");
}

TEST(ArgumentTest, TensorsWithoutNumbersAreUninitialised) {
  const StatusOr<Argument> argument = ParseArgument("bf16[4,2]");
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_EQ(std::get<EmptyTensor>(*argument), (EmptyTensor{DType::kBFloat16, Shape{4, 2}}));
}

TEST(ArgumentTest, RegistersHaveNamesInFilesOnlyAndStandAlone) {
  const StatusOr<Argument> argument = ReadArgument(YAML::Load("$x"), ".");
  ASSERT_TRUE(argument.ok());
  EXPECT_EQ(std::get<RegisterReference>(*argument).name, "x");
  EXPECT_FALSE(ReadArgument(YAML::Load("[1, $x]"), ".").ok());
  EXPECT_FALSE(ReadValue(YAML::Load("$x"), ".").ok());
}

TEST(ArgumentTest, DeepNestingIsRefused) {
  EXPECT_NE(ErrorOf(std::string(200, '[') + std::string(200, ']')).find("deep"), std::string::npos);
}

TEST(ArgumentTest, AliasesThatDoubleAgainAndAgainAreRefused) {
  std::string text = "[&a0 [1, 1]";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += ", &a" + std::to_string(i) + " [" + before + ", " + before + "]";
  }
  EXPECT_EQ(ParseArgument(text + "]").status().code(), StatusCode::kInvalidArgument);
}

TEST(ArgumentTest, AliasInsideItsAnchorIsRefused) {
  EXPECT_EQ(ParseArgument("&a [*a, *a]").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::cli
