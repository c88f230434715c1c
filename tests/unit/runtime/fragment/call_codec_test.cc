#include "runtime/fragment/call_codec.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/fragment/known_results.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep::fragment {
namespace {

using testing::HasSubstr;

constexpr int kWorld = 3;

plan::Layout ByRows(const Shape& shape, std::vector<Rank> ranks) {
  return *plan::Layout::Make(shape, DType::kFloat64, *plan::Mesh::Line(std::move(ranks)),
                             {plan::Placement::Shard(0)});
}

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

CallParts Example() {
  return {{{DType::kFloat64, {10, 4}, Split::kAsPlaced, ByRows({10, 4}, {2, 0, 1})},
           {DType::kInt64, {}, Split::kNone},
           {DType::kFloat32, {6}, Split::kRows, ByRows({6}, {0})}},
          {{Combine::kAdd, Shape{}}, {Combine::kRows}, {Combine::kNone, Shape{2, 3}}}};
}

TEST(CallCodecTest, ACallComesThroughAndHasTheSameBytesEachTime) {
  const std::string bytes = EncodeCall(Example());
  EXPECT_EQ(EncodeCall(Example()), bytes);
  const auto call = DecodeCall(BytesOf(bytes), kWorld);
  ASSERT_TRUE(call.ok()) << call.status();
  const CallParts given = Example();
  ASSERT_EQ(call->inputs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(call->inputs[i].dtype, given.inputs[i].dtype);
    EXPECT_EQ(call->inputs[i].shape, given.inputs[i].shape);
    EXPECT_EQ(call->inputs[i].split, given.inputs[i].split);
    EXPECT_EQ(call->outputs[i].combine, given.outputs[i].combine);
    EXPECT_EQ(call->outputs[i].shape, given.outputs[i].shape);
  }
  EXPECT_EQ(call->inputs[0].layout, given.inputs[0].layout);
  // Where it comes from is the client's affair.
  EXPECT_EQ(call->inputs[2].layout, std::nullopt);
}

TEST(CallCodecTest, WhoHasAnOwnTensorComesThrough) {
  for (const bool as_it_is : {false, true}) {
    const std::string bytes = EncodeCall(
        {{{DType::kFloat64, {3}, Split::kAsPlaced, std::nullopt, as_it_is, {0, 2}}}, {}});
    const auto call = DecodeCall(BytesOf(bytes), kWorld);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->inputs[0].holders, (std::vector<Rank>{0, 2}));
    const auto more = DecodeCall(BytesOf(bytes), /*world_size=*/1);
    EXPECT_EQ(more.status().code(), StatusCode::kInvalidArgument) << "than there are ranks";
  }
}

TEST(CallCodecTest, WhatAFunctionsCallSaysComesThrough) {
  const std::string bytes =
      EncodeCall({{{DType::kFloat32, {}, Split::kAsPlaced, std::nullopt, /*as_it_is=*/true}},
                  {{Combine::kRows, Shape{4}, DType::kBool}, {Combine::kAdd, Shape{}}}});
  const auto call = DecodeCall(BytesOf(bytes), kWorld);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->inputs[0].as_it_is);
  EXPECT_EQ(call->outputs[0].dtype, DType::kBool);
  EXPECT_EQ(call->outputs[1].dtype, std::nullopt);
}

TEST(CallCodecTest, WhatIsNoCallIsRefused) {
  const std::string bytes = EncodeCall(Example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeCall(BytesOf(bytes.substr(0, size)), kWorld).ok()) << size;
  }
  const auto smaller = DecodeCall(BytesOf(bytes), 2);
  EXPECT_EQ(smaller.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(smaller.status()), HasSubstr("rank 2"));
  CallParts many = Example();
  many.outputs.resize(Signature::kMaxValues + 1);
  EXPECT_THAT(Message(DecodeCall(BytesOf(EncodeCall(many)), kWorld).status()),
              HasSubstr("65 results"));
  CallParts unknown = Example();
  unknown.inputs[1].split = static_cast<Split>(kSplitCount);
  EXPECT_THAT(Message(DecodeCall(BytesOf(EncodeCall(unknown)), kWorld).status()),
              HasSubstr("no split number 4"));
}

TEST(CallCodecTest, ASignatureComesThrough) {
  const Signature signature{
      "f",
      {{{DType::kFloat64, {kOpen, 4}}, true, false}, {{DType::kInt32, {}, true}, false, true}},
      {{{DType::kFloat64, {kOpen}}, true}, {{DType::kBool, {2}}, false}}};
  capnp::MallocMessageBuilder message;
  auto builder = message.initRoot<wire::FragmentSignature>();
  WriteSignature(builder, signature);
  const auto read = ReadSignature(builder.asReader());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, signature);
  builder.getArguments()[0].getType().getShape().set(1, -2);
  EXPECT_FALSE(ReadSignature(builder.asReader()).ok());
}

// --- What results are, before the call
// ------------------------------------------------------------

PlacedCall Call(int64_t rows, const Output& output, const TensorType& result) {
  const Signature signature{"f", {{{DType::kFloat64, {kOpen}}}}, {{result}}};
  auto call = PlacedCall::Make(Kind::kMlir, signature, {0, 1, 2},
                               {{DType::kFloat64, {rows}, Split::kRows}}, {output});
  EXPECT_TRUE(call.ok()) << call.status();
  return *std::move(call);
}

TEST(KnownResultsTest, RowsArePartsOfWhatTheCallerExpects) {
  const auto rows =
      DescribeResult(Call(7, {Combine::kRows, Shape{7}}, {DType::kFloat64, {kOpen}}), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->shapes, (std::vector<Shape>{{3}, {2}, {2}}));
  EXPECT_EQ(*rows->layout, ByRows({7}, {0, 1, 2}));
}

TEST(KnownResultsTest, WorkersWithoutRowsHaveNoneOfTheResult) {
  const auto rows =
      DescribeResult(Call(2, {Combine::kRows}, {DType::kFloat64, {4}}), 0);  // 4 of each
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->shapes, (std::vector<Shape>{{4}, {4}, {0}}));
  EXPECT_EQ(rows->layout->shape(), Shape{8});
  const auto sum = DescribeResult(Call(2, {Combine::kAdd}, {DType::kFloat64, {}}), 0);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->shapes, (std::vector<Shape>{{}, {}, {}}));
  const auto own = DescribeResult(Call(2, {Combine::kNone}, {DType::kFloat64, {}}), 0);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->shapes, (std::vector<Shape>{{}, {}, {0}}));
  EXPECT_EQ(own->layout, std::nullopt);
}

}  // namespace
}  // namespace lockstep::fragment
