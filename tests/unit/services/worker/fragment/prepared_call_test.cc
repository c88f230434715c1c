// A fragment on all workers of small worlds, one after the other.
#include "services/worker/fragment/prepared_call.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"

namespace lockstep::worker {
namespace {

using fragment::Combine;
using fragment::PlacedCall;
using fragment::Split;
using testing::ElementsAre;

constexpr int64_t kSumMode = 0;
constexpr int64_t kDivideMode = 1;
constexpr int64_t kUntilAbortedMode = 2;
constexpr int64_t kUnknownSizeMode = 3;
constexpr int64_t kDoubleMode = 7;

// sum(int64, float64[?]) -> float64[?]: test_object.cc, over the numbers 1, 2, ... `count`.
class PreparedCallTest : public testing::Test {
 protected:
  PreparedCallTest() { Use(/*sizes_known=*/true); }

  // Whether the object tells sizes ahead, as its compiler says.
  void Use(bool sizes_known) {
    signature_.results[0].sizes_known = sizes_known;
    fragment::Compiled compiled;
    compiled.signature = signature_;
    const std::string bytes = support::ReadFile(fragment::FakeCompiler::File("test_object.so"));
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    compiled.object.assign(begin, begin + bytes.size());
    auto loaded = LoadedObject::Load(compiled);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    object_ = *std::move(loaded);
  }

  StatusOr<PlacedCall> Place(int workers, int64_t count, Combine combine, Split split,
                             std::optional<Shape> shape = std::nullopt) const {
    std::vector<Rank> ranks(static_cast<size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    return PlacedCall::Make(fragment::Kind::kMlir, signature_, ranks,
                            {{DType::kInt64, {}}, {DType::kFloat64, {count}, split}},
                            {{combine, std::move(shape)}});
  }
  StatusOr<PreparedCall> Prepare(const PlacedCall& call, int index, const int64_t& mode) const {
    PreparedCall prepared(call, index, object_);
    LOCKSTEP_RETURN_IF_ERROR(prepared.FindSizes({&mode, nullptr}, Resources()));
    return prepared;
  }
  CallResources Resources() const { return {*memory_, 1 << 20}; }

  // By worker, what it has of the result.
  std::vector<std::vector<double>> RunAll(int workers, int64_t count, Combine combine,
                                          Split split = Split::kRows) const {
    std::vector<double> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 1.0);
    const auto call = Place(workers, count, combine, split);
    EXPECT_TRUE(call.ok()) << call.status();
    std::vector<std::vector<double>> all;
    for (int i = 0; i < workers; ++i) {
      const auto prepared = Prepare(*call, i, kSumMode);
      EXPECT_TRUE(prepared.ok()) << prepared.status();
      std::vector<double> result(static_cast<size_t>(prepared->ResultShape(0).NumElements()), 99);
      const double* const part = numbers.data() + call->PartAt(1, i).begin[0];
      const Status done = prepared->Run({&kSumMode, part}, {result.data()}, Resources());
      EXPECT_TRUE(done.ok()) << done;
      all.push_back(std::move(result));
    }
    return all;
  }

  fragment::Signature signature_{
      "sum",
      {{{DType::kInt64, {}, true}}, {{DType::kFloat64, {fragment::kOpen}}}},
      {{{DType::kFloat64, {fragment::kOpen}}}}};
  const std::shared_ptr<tensor::Allocator> memory_ = tensor::NewHeapAllocator();
  std::shared_ptr<const LoadedObject> object_;
};

TEST_F(PreparedCallTest, SumsAreTheSameOverAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 3, 4, 8, 64}) {
    for (const int64_t count : {0, 1, 3, 10}) {
      double sum = -0.0;
      for (const auto& result : RunAll(workers, count, Combine::kAdd)) {
        ASSERT_THAT(result, testing::SizeIs(1));
        sum += result[0];
      }
      EXPECT_EQ(sum, static_cast<double>(count * (count + 1) / 2)) << count << " on " << workers;
    }
  }
}

TEST_F(PreparedCallTest, WorkersWithoutRowsContributeIdentityElements) {
  EXPECT_THAT(RunAll(3, 2, Combine::kAdd),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(0)));
  EXPECT_TRUE(std::signbit(RunAll(3, 2, Combine::kAdd)[2][0])) << "of which -0 stays -0";
  EXPECT_EQ(RunAll(3, 2, Combine::kMul)[2][0], 1);
  EXPECT_EQ(RunAll(3, 2, Combine::kMin)[2][0], INFINITY);
  EXPECT_EQ(RunAll(3, 2, Combine::kMax)[2][0], -INFINITY);
}

TEST_F(PreparedCallTest, RowsOfAllThatCallAreOneTensor) {
  EXPECT_THAT(RunAll(3, 10, Combine::kRows),
              ElementsAre(ElementsAre(10), ElementsAre(18), ElementsAre(27)));
  EXPECT_THAT(RunAll(3, 2, Combine::kRows),
              ElementsAre(ElementsAre(1), ElementsAre(2), testing::IsEmpty()));
  const auto prepared = Prepare(*Place(3, 2, Combine::kRows, Split::kRows), 2, kSumMode);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->ResultLayout(0)->shape(), Shape{2});
}

TEST_F(PreparedCallTest, WhatEachKeepsHasNoLayout) {
  EXPECT_THAT(RunAll(3, 2, Combine::kNone),
              ElementsAre(ElementsAre(1), ElementsAre(2), testing::IsEmpty()));
  const auto prepared = Prepare(*Place(3, 2, Combine::kNone, Split::kRows), 0, kSumMode);
  EXPECT_EQ(prepared->ResultLayout(0), nullptr);
}

TEST_F(PreparedCallTest, WhatIsWholeIsTheSameEverywhere) {
  EXPECT_THAT(RunAll(2, 3, Combine::kNone, Split::kNone),
              ElementsAre(ElementsAre(6), ElementsAre(6)));
  const auto prepared = Prepare(*Place(2, 3, Combine::kNone, Split::kNone), 0, kSumMode);
  EXPECT_EQ(prepared->ResultLayout(0)->placement(0), plan::Placement::Replicate());
}

TEST_F(PreparedCallTest, SizesThatAreNotToldAreThoseThatAreGiven) {
  const auto told = Place(2, 6, Combine::kRows, Split::kRows);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(Prepare(*told, 1, kUnknownSizeMode).status().code(), StatusCode::kInvalidArgument)
      << "-1 is no size";
  Use(/*sizes_known=*/false);
  const auto given = Place(2, 6, Combine::kRows, Split::kRows, Shape{6});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Prepare(*given, 1, kUnknownSizeMode)->ResultShape(0), Shape{3});
  EXPECT_EQ(Prepare(*given, 1, kSumMode).status(),
            InvalidArgument("result 0 of `sum` was to be [3] on rank 1, and is [1]"));
}

// Numbers that change are no new call; only what depends on them is found again.
TEST_F(PreparedCallTest, SizesFollowTheNumbers) {
  const auto call = Place(2, 6, Combine::kRows, Split::kRows);
  ASSERT_TRUE(call.ok()) << call.status();
  PreparedCall prepared(*call, 1, object_);
  const auto layout_for = [&](const int64_t& mode) {
    const Status found = prepared.FindSizes({&mode, nullptr}, Resources());
    EXPECT_TRUE(found.ok()) << found;
    return prepared.ResultLayout(0);
  };
  const PreparedCall::LayoutPtr sums = layout_for(kSumMode);
  EXPECT_EQ(sums->shape(), Shape{2});
  EXPECT_EQ(layout_for(kUntilAbortedMode), sums) << "another number, and the same sizes";
  EXPECT_EQ(layout_for(kDoubleMode)->shape(), Shape{6});
  EXPECT_EQ(prepared.result_bytes(), 3 * sizeof(double));
  // One that fails leaves none behind.
  EXPECT_FALSE(prepared.FindSizes({&kDivideMode, nullptr}, Resources()).ok());
  EXPECT_EQ(layout_for(kSumMode)->shape(), Shape{2});
}

}  // namespace
}  // namespace lockstep::worker
