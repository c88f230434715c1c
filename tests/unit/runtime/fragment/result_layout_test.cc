// What the results of a call are, given what each worker has made.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/fragment/placed_call.h"

namespace lockstep::fragment {
namespace {

using plan::Placement;

constexpr DType kDType = DType::kFloat64;

// g(float64[?, ?]) -> float64[`result`]; the argument is [rows, 2], split by rows over three.
StatusOr<PlacedCall> Call(std::vector<int64_t> result, Combine combine, int64_t rows = 10,
                          std::optional<Shape> shape = std::nullopt, Split split = Split::kRows,
                          Kind kind = Kind::kMlir) {
  const Signature signature{
      "g", {{{kDType, {kOpen, kOpen}}}}, {{{kDType, std::move(result)}, true}}};
  return PlacedCall::Make(kind, signature, {0, 1, 2}, {{kDType, {rows, 2}, split}},
                          {{combine, std::move(shape)}});
}

void ExpectLayout(const StatusOr<PlacedCall>& call, const std::vector<Shape>& shapes,
                  const Shape& whole, const Placement& placement) {
  ASSERT_TRUE(call.ok()) << call.status();
  const auto layout = call->ResultLayout(0, shapes);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_TRUE(layout->has_value());
  EXPECT_EQ((*layout)->shape(), whole);
  EXPECT_EQ((*layout)->placement(0), placement);
}

std::string Refusal(const StatusOr<PlacedCall>& call, const std::vector<Shape>& shapes) {
  EXPECT_TRUE(call.ok()) << call.status();
  const auto layout = call->ResultLayout(0, shapes);
  EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
  return Message(layout.status());
}

TEST(ResultLayoutTest, RowsAndColumnsAreShards) {
  ExpectLayout(Call({kOpen, 5}, Combine::kRows), {{4, 5}, {3, 5}, {3, 5}}, {10, 5},
               Placement::Shard(0));
  ExpectLayout(Call({2, kOpen}, Combine::kColumns), {{2, 1}, {2, 1}, {2, 1}}, {2, 3},
               Placement::Shard(1));
}

TEST(ResultLayoutTest, UnevenPartsAreGivenExtents) {
  ExpectLayout(Call({kOpen}, Combine::kRows), {{1}, {0}, {7}}, {8}, Placement::Shard(0, {1, 0, 7}));
}

TEST(ResultLayoutTest, ReductionsArePartial) {
  ExpectLayout(Call({3}, Combine::kMin), {{3}, {3}, {3}}, {3}, Placement::Partial(Reduction::kMin));
}

TEST(ResultLayoutTest, WhatIsWholeEverywhereIsReplicated) {
  ExpectLayout(Call({kOpen}, Combine::kNone, 10, std::nullopt, Split::kNone), {{7}, {7}, {7}}, {7},
               Placement::Replicate());
}

TEST(ResultLayoutTest, WhatEachWorkerKeepsHasNone) {
  const auto keeps = Call({kOpen}, Combine::kNone);
  ASSERT_TRUE(keeps.ok()) << keeps.status();
  const auto layout = keeps->ResultLayout(0, {{1}, {2}, {3}});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(*layout, std::nullopt);
  const auto function =
      Call({kOpen}, Combine::kNone, 10, std::nullopt, Split::kNone, Kind::kFunction);
  EXPECT_EQ(*function->ResultLayout(0, {{1}, {2}, {3}}), std::nullopt);
}

// Two rows, three workers: the third has none, and made nothing.
TEST(ResultLayoutTest, WorkersWithoutRowsContributeNoneToo) {
  // Each that calls gives four rows.
  ExpectLayout(Call({4}, Combine::kRows, 2), {{4}, {4}, {4}}, {8}, Placement::Shard(0, {4, 4, 0}));
  ExpectLayout(Call({kOpen}, Combine::kRows, 2), {{1}, {1}, {9}}, {2}, Placement::Shard(0));
  const auto sums = Call({kOpen}, Combine::kAdd, 2);
  ExpectLayout(sums, {{6}, {6}, {0}}, {6}, Placement::Partial(Reduction::kSum));
  EXPECT_EQ((*sums->ResultLayout(0, {{6}, {6}, {0}}))->TileAt(2).extents, Shape{6})
      << "as large as the others', full of identity elements";
}

TEST(ResultLayoutTest, OfNoRowsThereIsNothing) {
  ExpectLayout(Call({kOpen, 5}, Combine::kRows, 0), {{0, 5}, {0, 5}, {0, 5}}, {0, 5},
               Placement::Shard(0));
  // One worker calls with nothing: what it then says counts.
  ExpectLayout(Call({4}, Combine::kRows, 0), {{4}, {}, {}}, {4}, Placement::Shard(0, {4, 0, 0}));
  ExpectLayout(Call({2}, Combine::kAdd, 0), {{2}, {2}, {2}}, {2},
               Placement::Partial(Reduction::kSum));
  EXPECT_EQ(Message(Call({kOpen}, Combine::kRows, 0, Shape{7}).status()),
            "result 0 of `g` is float64[?], and the shape [7] is expected of it, but no worker has "
            "a part of what is split");
}

TEST(ResultLayoutTest, ShapesFitOneAnother) {
  EXPECT_EQ(Refusal(Call({kOpen}, Combine::kAdd), {{4}, {3}, {3}}),
            "result 0 of `g` cannot be combined by add: it is [4] on rank 0 and [3] on rank 1");
  EXPECT_EQ(Refusal(Call({kOpen, kOpen}, Combine::kRows), {{4, 1}, {3, 1}, {3, 2}}),
            "result 0 of `g` cannot be combined by rows: it is [4, 1] on rank 0 and [3, 2] on rank "
            "2");
  // What is computed from the same is the same.
  EXPECT_EQ(Refusal(Call({kOpen}, Combine::kNone, 10, std::nullopt, Split::kNone), {{7}, {7}, {6}}),
            "result 0 of `g` cannot be combined by none: it is [7] on rank 0 and [6] on rank 2");
}

TEST(ResultLayoutTest, ShapesFitWhatIsKnownOfThem) {
  EXPECT_EQ(Refusal(Call({kOpen, 5}, Combine::kRows), {{4, 5}, {3, 6}, {3, 5}}),
            "result 0 of `g` is float64[?, 5], and is [3, 6] on rank 1");
  EXPECT_EQ(Refusal(Call({kOpen}, Combine::kRows, 10, Shape{10}), {{4}, {4}, {2}}),
            "result 0 of `g` was to be [3] on rank 1, and is [4]");
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_EQ(Refusal(Call({kOpen}, Combine::kRows), {{kHuge}, {kHuge}, {kHuge}}),
            "result 0 of `g` is too large");
}

}  // namespace
}  // namespace lockstep::fragment
