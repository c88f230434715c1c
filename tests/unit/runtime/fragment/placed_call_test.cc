// What is checked before anything is sent.
#include "runtime/fragment/placed_call.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::fragment {
namespace {

constexpr DType kF64 = DType::kFloat64;
constexpr DType kI64 = DType::kInt64;

std::vector<Rank> Ranks(int count) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

plan::Layout LayoutOn(const std::vector<Rank>& ranks, const Shape& shape,
                      const plan::Placement& placement) {
  return *plan::Layout::Make(shape, kF64, *plan::Mesh::Line(ranks), {placement});
}

// f(float64[?, 4], float64[4]) -> (float64[?], float64[4])
Signature Affine() {
  return {"f",
          {{{kF64, {kOpen, 4}}}, {{kF64, {4}}}},
          {{{kF64, {kOpen}}, /*sizes_known=*/true}, {{kF64, {4}}, true}}};
}

std::vector<Input> AffineInputs() {
  return {{kF64, {10, 4}, Split::kRows}, {kF64, {4}, Split::kNone}};
}

std::vector<Output> AffineOutputs() { return {{Combine::kRows}, {Combine::kAdd}}; }

StatusOr<PlacedCall> MakeAffine(std::vector<Input> inputs, std::vector<Output> outputs,
                                int ranks = 3, Kind kind = Kind::kMlir) {
  return PlacedCall::Make(kind, Affine(), Ranks(ranks), std::move(inputs), std::move(outputs));
}

// Why the call is refused, with the second input or first output changed.
std::string Refusal(std::vector<Input> inputs, std::vector<Output> outputs) {
  const auto call = MakeAffine(std::move(inputs), std::move(outputs));
  EXPECT_EQ(call.status().code(), StatusCode::kInvalidArgument);
  return Message(call.status());
}
std::string RefusalOf(const Input& first, const Input& second = AffineInputs()[1]) {
  return Refusal({first, second}, AffineOutputs());
}
std::string RefusalOf(const Output& first) { return Refusal(AffineInputs(), {first, {}}); }

TEST(PlacedCallTest, EachWorkerGetsItsPart) {
  const auto call = MakeAffine(AffineInputs(), AffineOutputs());
  ASSERT_TRUE(call.ok()) << call.status();
  const std::vector<int64_t> begins = {0, 4, 7};
  const std::vector<int64_t> counts = {4, 3, 3};
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(call->PartAt(0, i), (plan::Box{{begins[at], 0}, {counts[at], 4}}));
    EXPECT_EQ(call->PartAt(1, i), (plan::Box{{0}, {4}}));
    EXPECT_TRUE(call->Calls(i));
  }
  EXPECT_EQ(*call->ArgumentLayout(0), LayoutOn(Ranks(3), {10, 4}, plan::Placement::Shard(0)));
  EXPECT_EQ(*call->ArgumentLayout(1), LayoutOn(Ranks(3), {4}, plan::Placement::Replicate()));
}

TEST(PlacedCallTest, TheSameTensorMayBeSplitAndWhole) {
  const plan::Layout layout = LayoutOn(Ranks(3), {4, 4}, plan::Placement::Shard(0));
  const Signature signature{
      "g", {{{kF64, {kOpen, 4}}}, {{kF64, {4, 4}}}}, {{{kF64, {kOpen, 4}}, true}}};
  const auto call =
      PlacedCall::Make(Kind::kMlir, signature, Ranks(3),
                       {{kF64, {4, 4}, Split::kRows, layout}, {kF64, {4, 4}, Split::kNone, layout}},
                       {{Combine::kRows}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->PartAt(0, 2).extents, Shape({1, 4}));
  EXPECT_EQ(call->PartAt(1, 2).extents, Shape({4, 4}));
}

TEST(PlacedCallTest, WorkersWithoutRowsDoNotCall) {
  const auto call =
      MakeAffine({{kF64, {2, 4}, Split::kRows}, AffineInputs()[1]}, AffineOutputs(), 4);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->Calls(0));
  EXPECT_TRUE(call->Calls(1));
  EXPECT_FALSE(call->Calls(2));
  EXPECT_FALSE(call->Calls(3));
}

TEST(PlacedCallTest, AWorkerThatHasAPartOfAnyArgumentCalls) {
  const Signature signature{
      "g", {{{kF64, {kOpen}}}, {{kF64, {kOpen}}}}, {{{kF64, {}, /*scalar=*/true}, true}}};
  const auto call =
      PlacedCall::Make(Kind::kMlir, signature, Ranks(4),
                       {{kF64, {3}, Split::kRows}, {kF64, {1}, Split::kRows}}, {{Combine::kAdd}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->Calls(2));
  EXPECT_EQ(call->PartAt(1, 2).extents, Shape({0}));
  EXPECT_FALSE(call->Calls(3));
}

// What a call has left with those that called alone.
TEST(PlacedCallTest, WhatSomeWorkersHaveOfTheirOwnTheyAloneTake) {
  const Signature signature{"g", {{{kF64, {3}}}}, {{{kF64, {3}}, true}, {{kF64, {3}}, true}}};
  const auto make = [&](Input input) {
    return PlacedCall::Make(Kind::kMlir, signature, Ranks(4), {std::move(input)},
                            {{Combine::kNone}, {Combine::kRows}});
  };
  const auto call = make({kF64, {3}, Split::kAsPlaced, {}, false, {0, 2}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->Calls(0));
  EXPECT_FALSE(call->Calls(1));
  EXPECT_TRUE(call->Calls(2));
  EXPECT_EQ(call->PartAt(0, 1).extents, Shape({0}));
  EXPECT_EQ(call->PartAt(0, 2).extents, Shape({3}));
  EXPECT_TRUE(call->IsKept(0));
  const auto rows = call->ResultLayout(1, std::vector<Shape>(4, Shape{3}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(**rows, LayoutOn(Ranks(4), {6}, plan::Placement::Shard(0, {3, 0, 3, 0})));

  for (const auto& [holders, why] : {std::pair{std::vector<Rank>{2, 0}, "ascending"},
                                     std::pair{std::vector<Rank>{4}, "rank 4"}}) {
    const auto refused = make({kF64, {3}, Split::kAsPlaced, {}, false, holders});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(Message(refused.status()).find(why), std::string::npos) << refused.status();
  }
  EXPECT_FALSE(make({kF64, {3}, Split::kNone, {}, false, {0}}).ok()) << "all have it";
}

// What it has of its own would be in no result otherwise: a sum, say, of which it has a part.
TEST(PlacedCallTest, AWorkerWithoutRowsCallsWithWhatIsItsOwn) {
  const Signature signature{
      "g", {{{kF64, {3}}}, {{kF64, {kOpen}}}}, {{{kF64, {3}}, true}, {{kF64, {kOpen}}, true}}};
  const Input rows{kF64, {2}, Split::kRows};
  const auto make = [&](Kind kind, Input own) {
    return PlacedCall::Make(kind, signature, Ranks(4), {std::move(own), rows},
                            {{Combine::kAdd}, {Combine::kRows, Shape{2}}});
  };
  const plan::Layout partial = LayoutOn(Ranks(4), {3}, plan::Placement::Partial(Reduction::kSum));
  for (const Input& own :
       {Input{kF64, {3}, Split::kAsPlaced}, Input{kF64, {3}, Split::kAsPlaced, partial}}) {
    const auto call = make(Kind::kMlir, own);
    ASSERT_TRUE(call.ok()) << call.status();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(call->Calls(i)) << i;
    EXPECT_EQ(call->PartAt(1, 3).extents, Shape({0}));
    EXPECT_EQ(call->KnownShape(1, 1), Shape({1}));
    EXPECT_EQ(call->KnownShape(1, 3), Shape({0}));
  }
  // Of what is only looked at by a function nothing is known.
  const auto call = make(Kind::kFunction, {kF64, {3}, Split::kAsPlaced, {}, true});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->Calls(3));
}

// One that has a part of something else, but none of what the fragment wants three of.
TEST(PlacedCallTest, AWorkerWithoutWhatItHasToTakeIsNamed) {
  const Signature signature{"g", {{{kF64, {3}}}, {{kF64, {kOpen}}}}, {{{kF64, {3}}, true}}};
  const auto call = PlacedCall::Make(
      Kind::kMlir, signature, Ranks(4),
      {{kF64, {3}, Split::kAsPlaced, {}, false, {0, 2}}, {kF64, {4}, Split::kRows}},
      {{Combine::kAdd}});
  EXPECT_EQ(call.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(call.status()).find("rank 1 would get [0]"), std::string::npos)
      << call.status();
}

TEST(PlacedCallTest, OfNothingOneWorkerMakesTheResult) {
  const auto call =
      MakeAffine({{kF64, {0, 4}, Split::kRows}, AffineInputs()[1]}, AffineOutputs(), 3);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->Calls(0));
  EXPECT_FALSE(call->Calls(1));
}

// As its split says, whatever follows from that on one worker.
TEST(PlacedCallTest, OneWorkerIsLikeSeveral) {
  const plan::Layout partial = *plan::Layout::Make({10, 4}, kF64, *plan::Mesh::Line({0}),
                                                   {plan::Placement::Partial(Reduction::kSum)});
  EXPECT_TRUE(MakeAffine({{kF64, {10, 4}, Split::kAsPlaced, partial}, AffineInputs()[1]},
                         {{Combine::kAdd}, {}}, 1)
                  .ok());
  EXPECT_TRUE(MakeAffine(AffineInputs(), AffineOutputs(), 1).ok());
  EXPECT_FALSE(MakeAffine({{kF64, {10, 4}}, AffineInputs()[1]}, {{Combine::kAdd}, {}}, 1).ok());
}

TEST(PlacedCallTest, WhatTwoWorkersHaveAlikeIsNotCountedTwice) {
  const plan::Layout layout =
      *plan::Layout::Make({10, 4}, kF64, *plan::Mesh::Make({{"a", 2}, {"b", 2}}, {0, 1, 2, 3}),
                          {plan::Placement::Shard(0), plan::Placement::Replicate()});
  const auto made = [&](Combine combine, const Input& second) {
    return MakeAffine({{kF64, {10, 4}, Split::kAsPlaced, layout}, second},
                      {{combine, Shape{10}}, {}}, 4)
        .status();
  };
  EXPECT_EQ(Message(made(Combine::kAdd, AffineInputs()[1])),
            "result 0 of `f`, which is float64[?], cannot be combined by add: ranks 0 and 1 are "
            "given the same, and their results would count twice; split the arguments over all "
            "workers");
  EXPECT_FALSE(made(Combine::kRows, AffineInputs()[1]).ok());
  EXPECT_TRUE(made(Combine::kMax, AffineInputs()[1]).ok());
  // Each has another one.
  EXPECT_TRUE(made(Combine::kAdd, {kF64, {4}, Split::kAsPlaced}).ok());
}

TEST(PlacedCallTest, WhatIsEmptyButNotDealtOutIsCalledWith) {
  // Rows of no elements are rows.
  const Signature signature{"g", {{{kF64, {kOpen, kOpen}}}}, {{{kF64, {kOpen}}, true}}};
  const auto call = PlacedCall::Make(Kind::kMlir, signature, Ranks(2),
                                     {{kF64, {4, 0}, Split::kRows}}, {{Combine::kRows}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->Calls(0));
  EXPECT_TRUE(call->Calls(1));
}

TEST(PlacedCallTest, ScalarsAreWhole) {
  const Signature signature{"g",
                            {{{kF64, {}, /*scalar=*/true}}, {{kF64, {}, true}}, {{kF64, {kOpen}}}},
                            {{{kF64, {}, true}, true}}};
  const std::vector<Input> inputs = {{kF64, {}}, {kF64, {}}, {kF64, {5}, Split::kRows}};
  const auto call = PlacedCall::Make(Kind::kMlir, signature, Ranks(2), inputs, {{Combine::kMax}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->PartAt(0, 1).extents, Shape());
  const auto split =
      PlacedCall::Make(Kind::kMlir, signature, Ranks(2),
                       {{kF64, {}, Split::kRows}, inputs[1], inputs[2]}, {{Combine::kMax}});
  EXPECT_EQ(Message(split.status()),
            "argument 0 of `g` cannot be split by rows: its shape [] has 0 dimensions");
}

TEST(PlacedCallTest, ArityIsChecked) {
  EXPECT_EQ(Refusal({AffineInputs()[0]}, AffineOutputs()),
            "`f` has 2 arguments, and 1 is given: "
            "f(float64[?, 4], float64[4]) -> (float64[?], float64[4])");
  EXPECT_EQ(Refusal(AffineInputs(), {{}, {}, {}}),
            "`f` has 2 results, and 3 are given: "
            "f(float64[?, 4], float64[4]) -> (float64[?], float64[4])");
}

TEST(PlacedCallTest, DTypesAndDimensionsAreChecked) {
  EXPECT_EQ(RefusalOf({DType::kFloat32, {10, 4}, Split::kRows}),
            "argument 0 of `f` is float64[?, 4], and float32 is given");
  EXPECT_EQ(RefusalOf({kF64, {10}, Split::kRows}),
            "argument 0 of `f` is float64[?, 4], and a tensor of shape [10] is given, which has 1 "
            "dimension");
  EXPECT_EQ(RefusalOf(AffineInputs()[0], {kF64, {4}, Split::kColumns}),
            "argument 1 of `f` cannot be split by columns: its shape [4] has 1 dimension");
}

TEST(PlacedCallTest, SizesAreCheckedOnEachWorker) {
  EXPECT_EQ(RefusalOf({kF64, {10, 5}, Split::kRows}),
            "argument 0 of `f` is float64[?, 4], and of a tensor of shape [10, 5] rank 0 would get "
            "[4, 5]");
  EXPECT_EQ(RefusalOf(AffineInputs()[0], {kF64, {5}}),
            "argument 1 of `f` is float64[4], and a tensor of shape [5] is given");
  // [4, ...] fits rank 0, and [3, ...] does not.
  const Signature signature{"g", {{{kF64, {4}}}}, {{{kF64, {}}, true}}};
  EXPECT_EQ(Message(PlacedCall::Make(Kind::kMlir, signature, Ranks(3), {{kF64, {10}, Split::kRows}},
                                     {{Combine::kAdd}})
                        .status()),
            "argument 0 of `g` is float64[4], and of a tensor of shape [10] rank 1 would get [3]");
}

TEST(PlacedCallTest, CombinesFitTheirResults) {
  EXPECT_EQ(RefusalOf({Combine::kColumns}),
            "result 0 of `f`, which is float64[?], cannot be combined by columns: it has 1 "
            "dimension");
  const Signature truths{"g", {{{kF64, {kOpen}}}}, {{{DType::kBool, {}, /*scalar=*/true}, true}}};
  const auto combined = [&](Combine combine) {
    return PlacedCall::Make(Kind::kMlir, truths, Ranks(2), {{kF64, {4}, Split::kRows}}, {{combine}})
        .status();
  };
  EXPECT_TRUE(combined(Combine::kMax).ok());
  EXPECT_EQ(
      Message(combined(Combine::kAdd)),
      "result 0 of `g`, which is bool, cannot be combined by add: of truths, max says whether "
      "any is true, and min whether all are");
  EXPECT_FALSE(combined(Combine::kRows).ok());
}

TEST(PlacedCallTest, WhatIsTheSameOnAllWorkersIsNotCombined) {
  const std::vector<Input> whole = {{kF64, {10, 4}}, {kF64, {4}}};
  EXPECT_EQ(Message(MakeAffine(whole, AffineOutputs()).status()),
            "result 0 of `f`, which is float64[?], cannot be combined by rows: no argument is "
            "split, so all workers have the same one; split one, or combine by none");
  EXPECT_TRUE(MakeAffine(whole, {{}, {}}).ok());
  EXPECT_TRUE(MakeAffine(whole, AffineOutputs(), 3, Kind::kFunction).ok())
      << "a module's function may do something else on each worker";
}

TEST(PlacedCallTest, ShapesThatAreNotKnownAreAskedFor) {
  Signature signature = Affine();
  signature.results[0].sizes_known = false;
  const auto make = [&](std::optional<Shape> shape) {
    return PlacedCall::Make(Kind::kMlir, signature, Ranks(3), AffineInputs(),
                            {{Combine::kRows, std::move(shape)}, {Combine::kAdd}});
  };
  EXPECT_EQ(Message(make(std::nullopt).status()),
            "result 0 of `f` is float64[?], and only the call itself knows how large it becomes: "
            "give its shape");
  const auto call = make(Shape{10});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->KnownShape(0, 0), Shape{4}) << "dealt out as the argument of ten rows";
  EXPECT_EQ(call->KnownShape(0, 2), Shape{3});
  EXPECT_EQ(make(Shape{7})->KnownShape(0, 0), Shape{3}) << "even";
  EXPECT_EQ(Message(make(Shape{10, 1}).status()),
            "result 0 of `f` is float64[?], and the shape [10, 1] is expected of it");
  EXPECT_FALSE(make(Shape{-1}).ok());
}

TEST(PlacedCallTest, GivenShapesFitTheSignature) {
  EXPECT_EQ(Refusal(AffineInputs(), {{Combine::kRows}, {Combine::kAdd, Shape{5}}}),
            "result 1 of `f` is float64[4], and the shape [5] is expected of it");
  // Parts of two rows each, as it is, and of four.
  const Signature signature{"g", {{{kF64, {kOpen}}}}, {{{kF64, {2}}, true}}};
  const auto make = [&](const Shape& shape) {
    return PlacedCall::Make(Kind::kMlir, signature, Ranks(2), {{kF64, {6}, Split::kRows}},
                            {{Combine::kRows, shape}});
  };
  EXPECT_TRUE(make({4}).ok());
  EXPECT_EQ(Message(make({8}).status()),
            "result 0 of `g` is float64[2], and the shape [8] is expected of it: [4] on rank 0");
}

TEST(PlacedCallTest, AsPlacedIsTakenFromWhereItLies) {
  const std::vector<Rank> reversed = {2, 1, 0};
  const plan::Layout layout = LayoutOn(reversed, {10, 4}, plan::Placement::Shard(0));
  const Input placed{kF64, {10, 4}, Split::kAsPlaced, layout};
  const auto call = MakeAffine({placed, AffineInputs()[1]}, {{Combine::kMax, Shape{10}}, {}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(*call->ArgumentLayout(0), layout);
  EXPECT_EQ(RefusalOf(placed),
            "result 0 of `f`, which is float64[?], cannot be combined by rows: the parts of "
            "argument 0 lie in another order than the ranks that have them; split it, or reshard "
            "it");
  EXPECT_EQ(call->PartAt(0, 2), (plan::Box{{0, 0}, {4, 4}}));
  const plan::Layout elsewhere = LayoutOn({0, 1}, {10, 4}, plan::Placement::Shard(0));
  EXPECT_EQ(RefusalOf({kF64, {10, 4}, Split::kAsPlaced, elsewhere}),
            "argument 0 of `f` cannot be taken as it is placed: it lies on ranks 0, 1, and the "
            "fragment also runs on rank 2");
}

TEST(PlacedCallTest, WithoutALayoutEachWorkerHasItsOwn) {
  const auto call =
      MakeAffine({{kF64, {10, 4}, Split::kAsPlaced}, AffineInputs()[1]}, AffineOutputs());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->ArgumentLayout(0), std::nullopt);
  EXPECT_EQ(call->PartAt(0, 2), (plan::Box{{0, 0}, {10, 4}}));
}

TEST(PlacedCallTest, WhatCannotBeBroughtThereIsRefused) {
  // Of another shape than the call says.
  const plan::Layout other = LayoutOn(Ranks(3), {9, 4}, plan::Placement::Shard(0));
  EXPECT_NE(RefusalOf({kF64, {10, 4}, Split::kRows, other}).find("argument 0 of `f`: "),
            std::string::npos);
  EXPECT_NE(RefusalOf({kF64, {10, 4}, Split::kAsPlaced, other}).find("argument 0 of `f` is"),
            std::string::npos);
}

TEST(PlacedCallTest, RanksAreThoseOfAMesh) {
  EXPECT_FALSE(PlacedCall::Make(Kind::kMlir, Affine(), {}, AffineInputs(), AffineOutputs()).ok());
  EXPECT_FALSE(
      PlacedCall::Make(Kind::kMlir, Affine(), {1, 1}, AffineInputs(), AffineOutputs()).ok());
}

TEST(SignatureTest, OfOthersAreChecked) {
  Signature signature = Affine();
  EXPECT_TRUE(signature.Validate().ok());
  signature.arguments[0].type.extents[0] = -2;
  EXPECT_EQ(Message(signature.Validate()), "argument 0 has the extent -2");
  signature = Affine();
  signature.results[1].type.scalar = true;
  EXPECT_FALSE(signature.Validate().ok());
  signature = Affine();
  signature.results.resize(Signature::kMaxValues + 1);
  EXPECT_FALSE(signature.Validate().ok());
  EXPECT_TRUE(IsFragmentDType(kI64));
  EXPECT_FALSE(IsFragmentDType(DType::kFloat16));
}

}  // namespace
}  // namespace lockstep::fragment
