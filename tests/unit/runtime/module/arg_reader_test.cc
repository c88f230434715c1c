#include "runtime/module/arg_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/tensor/storage.h"

namespace lockstep::module {
namespace {

using registers::Value;

void ExpectInvalid(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(Message(status), message);
}

TEST(ArgReaderTest, ReadsEachTypeInOrder) {
  const auto heap = tensor::NewHeapAllocator();
  const tensor::Tensor tensor = *tensor::Tensor::Empty(*heap, DType::kInt8, {3});
  const std::vector<Value> args = {int64_t{1},   2.5,        int64_t{3}, "four",
                                   DType::kInt8, "bfloat16", Shape{6},   tensor};
  ArgReader in(args);
  EXPECT_EQ(in.Int("a"), 1);
  EXPECT_EQ(in.Float("b"), 2.5);
  EXPECT_EQ(in.Float("c"), 3.0) << "a float64 may be written as an int64";
  EXPECT_EQ(in.Text("d"), "four");
  EXPECT_EQ(in.Dtype("e"), DType::kInt8);
  EXPECT_EQ(in.Dtype("f"), DType::kBFloat16) << "a dtype may be named";
  EXPECT_EQ(in.TensorShape("g"), (Shape{6}));
  EXPECT_EQ(in.ReachableTensor("h").data(), tensor.data());
  EXPECT_TRUE(in.Finish().ok());
}

TEST(ArgReaderTest, NumbersKeepTheirKind) {
  const std::vector<Value> args = {int64_t{7}, 7.5, true};
  ArgReader in(args);
  EXPECT_TRUE(in.AnyNumber("a").is_int);
  const Number half = in.AnyNumber("b");
  EXPECT_FALSE(half.is_int);
  EXPECT_EQ(half.AsDouble(), 7.5);
  EXPECT_EQ(in.AnyNumber("c").int_value, 1);
  EXPECT_TRUE(in.Finish().ok());
}

TEST(ArgReaderTest, ShapeMayBeAListOfInts) {
  const Value list =
      std::make_shared<const registers::List>(registers::List{int64_t{2}, int64_t{3}});
  ArgReader in({&list, 1});
  EXPECT_EQ(in.TensorShape("shape"), (Shape{2, 3}));
  EXPECT_TRUE(in.Finish().ok());
}

TEST(ArgReaderTest, WrongTypeSaysWhichArgumentAndWhatCame) {
  const std::vector<Value> args = {int64_t{1}, "two"};
  ArgReader in(args);
  in.Int("axis");
  EXPECT_EQ(in.Int("begin"), 0);
  ExpectInvalid(in.Finish(), "argument 2 (\"begin\") must be an int64, not text of 3 bytes");
}

TEST(ArgReaderTest, NoneIsNotAnInt) {
  const Value none;
  ArgReader in({&none, 1});
  in.Int("axis");
  ExpectInvalid(in.Finish(), "argument 1 (\"axis\") must be an int64, not none");
}

TEST(ArgReaderTest, MissingArgumentIsNamed) {
  ArgReader in({});
  in.Int("axis");
  ExpectInvalid(in.Finish(), "argument 1 (\"axis\") is missing");
}

TEST(ArgReaderTest, TooManyArgumentsListTheExpectedOnes) {
  const std::vector<Value> args = {int64_t{1}, int64_t{2}, int64_t{3}};
  ArgReader in(args);
  in.Int("axis");
  in.Int("begin");
  ExpectInvalid(in.Finish(), "expected 2 arguments (axis, begin), got 3");
}

TEST(ArgReaderTest, TheFirstErrorWins) {
  const std::vector<Value> args = {"one", "two", "three"};
  ArgReader in(args);
  in.Int("a");
  in.Int("b");
  in.Reject("is odd");
  ExpectInvalid(in.Finish(), "argument 1 (\"a\") must be an int64, not text of 3 bytes");
}

TEST(ArgReaderTest, TrailingNonesAreOptionalArgumentsLeftOut) {
  const std::vector<Value> args = {int64_t{1}, Value(), Value()};
  ArgReader in(args);
  in.Int("a");
  EXPECT_FALSE(in.HasNext());
  EXPECT_TRUE(in.Finish().ok());
}

TEST(ArgReaderTest, BadDtypesShapesAndIndicesAreExplained) {
  {
    const Value name = "float";
    ArgReader in({&name, 1});
    in.Dtype("dtype");
    EXPECT_NE(Message(in.Finish()).find("argument 1 (\"dtype\") is no dtype: unknown dtype"),
              std::string::npos);
  }
  {
    const Value shape = Shape{2, -1};
    ArgReader in({&shape, 1});
    in.TensorShape("shape");
    ExpectInvalid(in.Finish(),
                  "argument 1 (\"shape\") is invalid: shape [2, -1] has a negative extent");
  }
  {
    const Value index = int64_t{4};
    ArgReader in({&index, 1});
    in.IndexBelow("rank", 4);
    ExpectInvalid(in.Finish(), "argument 1 (\"rank\") must be at least 0 and below 4, not 4");
  }
  {
    const Value tensor = tensor::Tensor();
    ArgReader in({&tensor, 1});
    in.ReachableTensor("x");
    ExpectInvalid(in.Finish(), "argument 1 (\"x\") must be a tensor, not a null tensor");
  }
}

}  // namespace
}  // namespace lockstep::module
