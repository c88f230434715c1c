#include "tools/cli/value_text.h"

#include <cmath>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

HostTensor Matrix() {
  const std::vector<float> elements = {1, 2, 3, 4.5, 5, 6};
  return HostTensor::Of<float>(Shape{2, 3}, elements);
}

TEST(RenderTest, TensorsShowTheirStructure) {
  EXPECT_EQ(Render(Matrix()), "float32 [2, 3] {{1, 2, 3}, {4.5, 5, 6}}");
  EXPECT_EQ(Render(Matrix(), 4), "float32 [2, 3] {{1, 2, 3}, {4.5, ...}}");
  EXPECT_EQ(Render(Matrix(), 2), "float32 [2, 3] {{1, 2, ...}, ...}");
}

TEST(RenderTest, NarrowFloatsAreNumbers) {
  const HostTensor one{DType::kBFloat16, Shape{1}, std::string("\x80\x3f", 2)};
  EXPECT_EQ(Render(one), "bfloat16 [1] {1}");
}

TEST(RenderTest, ScalarAndEmptyTensors) {
  const int32_t seven = 7;
  EXPECT_EQ(Render(HostTensor::Of<int32_t>(Shape{}, absl::MakeConstSpan(&seven, 1))), "int32 [] 7");
  EXPECT_EQ(Render(HostTensor{DType::kInt8, Shape{0, 4}, ""}), "int8 [0, 4] {}");
}

TEST(RenderTest, ListsMapsAndBytes) {
  EXPECT_EQ(Render(Value::List{Value(1), Value("a"), Value(None{})}), "[1, \"a\", none]");
  EXPECT_EQ(Render(Value::Map{{"k", Value(true)}}), "{k: true}");
  EXPECT_EQ(Render(Bytes{"\x01\xab"}), "hex:01ab");
}

TEST(JsonTest, ScalarsAreNativeAndTheRestNamesItsType) {
  EXPECT_EQ(ToJson(Value(None{})).dump(), "null");
  EXPECT_EQ(ToJson(Value(3)).dump(), "3");
  EXPECT_EQ(ToJson(Value(0.5)).dump(), "0.5");
  EXPECT_EQ(ToJson(Value(std::nan(""))).dump(), "\"nan\"");
  EXPECT_EQ(ToJson(Value("a\"b")).dump(), "\"a\\\"b\"");
  EXPECT_EQ(ToJson(Value(DType::kFloat16)).dump(), "{\"dtype\":\"float16\"}");
  EXPECT_EQ(ToJson(Value(Shape{2, 0})).dump(), "{\"shape\":[2,0]}");
  EXPECT_EQ(ToJson(Value(Bytes{"\xff"})).dump(), "{\"bytes\":\"ff\"}");
  EXPECT_EQ(ToJson(Value(Value::List{Value(1), Value(Value::Map{{"a", Value(2)}})})).dump(),
            "[1,{\"a\":2}]");
  EXPECT_EQ(ToJson(Value(Matrix())).dump(),
            "{\"tensor\":{\"dtype\":\"float32\",\"shape\":[2,3],"
            "\"data\":[1.0,2.0,3.0,4.5,5.0,6.0]}}");
}

TEST(GroupEqualTest, RanksWithOneValueAreShownOnce) {
  const std::vector<RankValue> values = {
      {0, Value(1)}, {1, Value(2)}, {2, Value(1)}, {3, Value("1")}};
  const std::vector<SharedValue> groups = GroupEqual(values);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].ranks, (std::vector<Rank>{0, 2}));
  EXPECT_EQ(groups[1].ranks, (std::vector<Rank>{1}));
  EXPECT_EQ(groups[2].ranks, (std::vector<Rank>{3}));
}

// A reply of a few bytes can claim very many rows of nothing.
TEST(RenderTest, EmptyTensorOfManyRowsIsShownAtOnce) {
  EXPECT_EQ(Render(HostTensor{DType::kInt8, Shape{int64_t{1} << 60, 0}, ""}),
            "int8 [1152921504606846976, 0] {}");
}

// The name of a session is what its client says.
TEST(JsonTest, TextThatIsNoUtf8IsReplaced) {
  EXPECT_EQ(ToText(Json{{"name", "a\xff"}}), "{\n  \"name\": \"a\xef\xbf\xbd\"\n}");
}

}  // namespace
}  // namespace lockstep::cli
