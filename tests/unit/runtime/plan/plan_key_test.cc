#include "runtime/plan/plan_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::plan {
namespace {

using ::testing::HasSubstr;

// All that a program says, so that each of it can be another.
struct Choices {
  std::string input = "x";
  std::string output = "y";
  std::string function = "layer";
  Shape shape = {8, 6};
  DType dtype = DType::kFloat32;
  std::vector<Rank> ranks = {0, 1, 2, 3};
  std::string axis = "x";
  Placement placement = Placement::Shard(0);
  Placement result = Placement::Partial(Reduction::kSum);
  Literal literal = int64_t{1};
  bool updates = false;
  SourceLine line = {"train.cc", 12};
  SourceLine reshard_line = {"train.cc", 13};
  int calls = 1;

  Layout LayoutOf(Placement of) const {
    const int size = static_cast<int>(ranks.size());
    return *Layout::Make(shape, dtype, *Mesh::Make({{axis, size}}, ranks), {of});
  }
  Program Build() const {
    ProgramBuilder builder;
    const ValueId x = builder.Input(input, LayoutOf(placement));
    ValueId sums = kNoValue;
    for (int i = 0; i < calls; ++i) {
      sums = builder.Call(function, {updates ? Update(x) : Read(x), Pass(literal)},
                          LayoutOf(result), line);
    }
    builder.Output(output, builder.Reshard(sums, LayoutOf(placement), reshard_line));
    return *builder.Build();
  }
};

TEST(PlanKeyTest, EqualProgramsHaveEqualBytesAndKeys) {
  const EncodedProgram one = Encode(Choices().Build());
  const EncodedProgram other = Encode(Choices().Build());
  EXPECT_NE(one.words, other.words);
  EXPECT_EQ(*one.words, *other.words);
  EXPECT_EQ(one.key, other.key);
  EXPECT_EQ(one, other);
  EXPECT_EQ(one.key.ToString().size(), 32u);
}

TEST(PlanKeyTest, WhateverIsAnotherMakesAnotherKey) {
  std::vector<Choices> all = {
      {},
      {.input = "z"},
      {.output = "z"},
      {.function = "layer2"},
      {.shape = {6, 8}},
      {.shape = {8, 6, 1}},
      {.dtype = DType::kFloat64},
      {.ranks = {0, 1, 3, 2}},
      {.ranks = {0, 1, 2}},
      {.axis = "y"},
      {.placement = Placement::Shard(1)},
      {.placement = Placement::Shard(0, {2, 2, 2, 2})},
      {.placement = Placement::Shard(0, {2, 2, 4, 0})},
      {.placement = Placement::Replicate()},
      {.result = Placement::Partial(Reduction::kMax)},
      {.literal = int64_t{2}},
      {.literal = 1.0},
      {.literal = -0.0},
      {.literal = 0.0},
      {.literal = true},
      {.literal = std::string("1")},
      {.literal = Shape({1})},
      {.literal = DType::kInt8},
      {.updates = true},
      {.line = {"train.cc", 14}},
      {.line = {"test.cc", 12}},
      {.reshard_line = {"train.cc", 14}},
      {.calls = 2},
  };
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [at, is_new] = seen.emplace(Encode(all[i].Build()).key.ToString(), i);
    EXPECT_TRUE(is_new) << "choices " << at->second << " and " << i;
  }
}

TEST(PlanKeyTest, WhatTravelsIsTheProgramAndHasItsKey) {
  const Program program = Choices().Build();
  const EncodedProgram encoded = Encode(program);
  const StatusOr<EncodedProgram> copied = CopyEncoded(encoded.bytes());
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(*copied, encoded);
  const StatusOr<Program> decoded = Decode(*copied, 4);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, program);
  EXPECT_THAT(Decode(*copied, 3).status().message(), HasSubstr("the mesh names rank 3"));
}

TEST(PlanKeyTest, WhatIsNoProgramIsRefused) {
  EXPECT_THAT(CopyEncoded({}).status().message(), HasSubstr("0 bytes is cut off"));
  const std::vector<std::byte> odd(9);
  EXPECT_THAT(CopyEncoded(odd).status().message(), HasSubstr("9 bytes is cut off"));
  // A pointer to far beyond its end.
  const std::vector<std::byte> bytes(8, std::byte{0x70});
  const StatusOr<EncodedProgram> copied = CopyEncoded(bytes);
  ASSERT_TRUE(copied.ok()) << copied.status();
  const Status status = Decode(*copied, 4).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status), HasSubstr("a program cannot be read"));
}

// A few bytes can claim a list of very many elements that take no room.
TEST(PlanKeyTest, AProgramIsReadWithinLimits) {
  EXPECT_TRUE(Decode(Encode(Choices{.calls = 500}.Build()), 4).ok());
  constexpr uint64_t kRoot = uint64_t{1} << 32 | uint64_t{2} << 48;  // a word, and two pointers
  constexpr uint64_t kList = 1 | uint64_t{7} << 32;                  // of structs, behind its tag
  constexpr uint64_t kTag = uint64_t{(1 << 29) - 1} << 2;
  const std::vector<uint64_t> words = {kRoot, Program::kVersion, 0, kList, kTag};
  const auto* const start = reinterpret_cast<const std::byte*>(words.data());
  const auto copied = CopyEncoded({start, words.size() * sizeof(uint64_t)});
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(Message(Decode(*copied, 4).status()), HasSubstr("a program cannot be read"));
}

}  // namespace
}  // namespace lockstep::plan
