// Functions that are called as fragments: by their name, on each worker's part of the data.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/fragments_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FragmentFunctionsTest : public FragmentsFixture {};
INSTANTIATE_TEST_SUITE_P(Clusters, FragmentFunctionsTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(FragmentFunctionsTest, AFunctionIsCalledOnParts) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  for (const int64_t rows : {10, 2}) {
    const DRef copied = Unwrap(session_->Execute(copy, {{Numbers(rows), Split::kRows}},
                                                 {{Combine::kRows, Shape{rows}, DType::kFloat64}}))
                            .front();
    EXPECT_EQ(Elements<double>(copied, 1),
              rows == 10 ? (std::vector<double>{4, 5, 6}) : std::vector<double>{2});
    EXPECT_EQ(Collected(copied).size(), static_cast<size_t>(rows));
    EXPECT_EQ(Unwrap(session_->LayoutOf(copied)), ByRows({rows}));
    // Those without rows are not called, and contribute what changes nothing.
    const DRef added = Unwrap(session_->Execute(copy, {{Numbers(1), Split::kRows}},
                                                {{Combine::kAdd, Shape{1}, DType::kFloat64}}))
                           .front();
    EXPECT_EQ(Elements<double>(added, 3), (std::vector<double>{0}));
    EXPECT_EQ(Collected(added), (std::vector<double>{1}));
  }
}

// What it returns may differ although all are given the same; a number is a tensor, too.
TEST_P(FragmentFunctionsTest, NumbersOfAFunctionAreCombined) {
  const CompiledFragment rank =
      Unwrap(session_->Compile(Unwrap(Fragment::Function("lockstep.worker_rank"))));
  EXPECT_EQ(rank.signature().ToString(), "lockstep.worker_rank() -> ()");
  const auto combined = [&](Combine combine) {
    const DRef made =
        Unwrap(session_->Execute(rank, {}, {{combine, Shape{}, DType::kInt64}})).front();
    return Unwrap(Unwrap(session_->Collect(made)).Elements<int64_t>()).front();
  };
  EXPECT_EQ(combined(Combine::kAdd), 0 + 1 + 2 + 3);
  EXPECT_EQ(combined(Combine::kMax), 3);
}

// Whatever each worker has, and a list of what it is to give.
TEST_P(FragmentFunctionsTest, AFunctionGivesSeveralResults) {
  const DRef both = Call("lockstep.identity",
                         Value(Value::List{FullOfRank({1}), FullOfRank({2}, DType::kInt32)}));
  const std::vector<DRef> parts = Unwrap(session_->Execute(
      Unwrap(Fragment::Function("lockstep.identity")), {{both, Split::kAsPlaced}},
      {{Combine::kRows, Shape{4}, DType::kFloat32}, {Combine::kAdd, Shape{2}, DType::kInt32}}));
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(parts[0])).Elements<float>()),
            (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(parts[1])).Elements<int32_t>()),
            (std::vector<int32_t>{6, 6}));
}

TEST_P(FragmentFunctionsTest, AFunctionOfAModuleIsFoundByItsName) {
  const Fragment echo = Unwrap(Fragment::Function("echo"));
  const Status missing = session_->Compile(echo).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(missing), HasSubstr("echo"));
  const DRef module = Unwrap(session_->LoadModule(ModuleDirectory() + "/test_module.so"));
  const DRef sum =
      Unwrap(session_->Execute(echo, {7}, {{Combine::kAdd, Shape{}, DType::kInt64}})).front();
  EXPECT_EQ(Unwrap(Unwrap(session_->Collect(sum)).Elements<int64_t>()).front(), 4 * 7);
}

// What it writes to is the register that it was given, or a copy of its own.
TEST_P(FragmentFunctionsTest, AFunctionWritesToNoCopyThatOthersAreGiven) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  const auto sum = [&](const DRef& ref, Split split) {
    return Elements<double>(
               Execute(kSum, {ref, split},
                       {split == Split::kNone ? Combine::kNone : Combine::kAdd, Shape{1}}),
               0)
        .front();
  };
  const HostTensor ones = HostTensor::Of<double>({10}, std::vector<double>(10, 1.0));
  const DRef rows = Unwrap(session_->Place(Numbers(10), ByRows({10})));
  EXPECT_EQ(sum(rows, Split::kNone), 55);  // whose copy is kept
  (void)Unwrap(session_->Execute(copy, {ones, {rows, Split::kNone}}, {}));
  EXPECT_EQ(sum(rows, Split::kNone), 55);
  EXPECT_EQ(Collected(rows).back(), 10);
  (void)Unwrap(session_->Execute(copy, {{ones, Split::kRows}, {rows, Split::kAsPlaced}}, {}));
  EXPECT_EQ(sum(rows, Split::kNone), 10);
  EXPECT_EQ(Collected(rows).back(), 1);
}

TEST_P(FragmentFunctionsTest, WhatAFunctionDoesNotFitIsSaid) {
  const Fragment copy = Unwrap(Fragment::Function("lockstep.copy"));
  const FragmentInput rows{Numbers(10), Split::kRows};
  const auto refused = [&](const FragmentOutput& output) {
    const Status status = session_->Execute(copy, {rows}, {output}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  // Here, as far as that is known.
  EXPECT_THAT(refused({Combine::kRows}), HasSubstr("say shape and dtype with the call"));
  EXPECT_THAT(refused({Combine::kColumns, Shape{10}, DType::kFloat64}),
              HasSubstr("cannot be combined by columns"));
  EXPECT_THAT(refused({Combine::kAdd, Shape{10}, DType::kBool}), HasSubstr("of truths"));
  EXPECT_OK(session_->SyncAll());
  // And what it returns, where it has run.
  (void)Unwrap(session_->Execute(copy, {rows}, {{Combine::kRows, Shape{10}, DType::kFloat32}}));
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("lockstep.copy: result 0: by the call it is "),
                                     HasSubstr("rank "), HasSubstr("float64")));
  EXPECT_OK(session_->Reset());
}

}  // namespace
}  // namespace lockstep::testing
