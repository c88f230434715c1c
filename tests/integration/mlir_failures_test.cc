// Fragments that MLIR compiles, and that fail: while they are compiled, and while they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "runtime/client/session.h"
#include "tests/integration/compiled_fragments_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Split;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MlirFailuresTest : public CompiledFragmentsFixture {};
INSTANTIATE_TEST_SUITE_P(Workers, MlirFailuresTest, ::testing::Values(1, 2, 3, 4, 8),
                         ::testing::PrintToStringParamName());

TEST_P(MlirFailuresTest, WhatDoesNotParseIsToldOnceWithItsPlace) {
  const Status status =
      session_->Compile(Mlir("func.func @f(%x: tensor<4xf64>) {\n  nonsense\n}")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("f.mlir:2:"), ::testing::Not(HasSubstr("rank"))));
  EXPECT_EQ(session_->SyncAll(), OkStatus());
}

TEST_P(MlirFailuresTest, DivisionByZeroSaysWhere) {
  constexpr char kText[] = R"(func.func @ratio(%x: tensor<?xi64>, %by: i64) -> tensor<?xi64> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi64>
  %all = tensor.splat %by[%n] : tensor<?xi64>
  %y = arith.divsi %x, %all : tensor<?xi64>
  return %y : tensor<?xi64>
})";
  const FragmentInput x{Numbers<int64_t>({4}), Split::kRows};
  const std::vector<int64_t> halves =
      Collected<int64_t>(Execute(kText, {x, 2}, {{Combine::kRows, Shape{4}}})[0]);
  EXPECT_EQ(halves.size(), 4u);
  (void)Execute(kText, {x, 0}, {{Combine::kRows, Shape{4}}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("arith.divsi at line 5"), HasSubstr("f.mlir")));
  EXPECT_EQ(session_->Reset(), OkStatus());
}

TEST_P(MlirFailuresTest, ALoopWithoutEndIsEndedByAReset) {
  constexpr char kText[] = R"(
func.func @forever(%x: tensor<?xf64>) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %r = scf.while (%i = %zero) : (i64) -> i64 {
    %go_on = arith.cmpi ne, %i, %one : i64
    scf.condition(%go_on) %i : i64
  } do {
  ^bb0(%j: i64):
    scf.yield %j : i64
  }
  return %r : i64
})";
  (void)Execute(kText, {{Numbers({8}), Split::kRows}}, {{Combine::kAdd}});
  EXPECT_EQ(session_->Flush(), OkStatus());
  EXPECT_EQ(session_->Reset(), OkStatus());
  EXPECT_EQ(session_->SyncAll(), OkStatus());
}

TEST_P(MlirFailuresTest, MoreMemoryThanTheArenaHasIsAnErrorOfTheSession) {
  constexpr char kText[] = R"(
func.func @large(%x: tensor<?xf64>, %rows: i64) -> f64 {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = arith.index_cast %rows : i64 to index
  %v = tensor.extract %x[%c0] : tensor<?xf64>
  %t = tensor.splat %v[%n] : tensor<?xf64>
  %r = tensor.insert %zero into %t[%c0] : tensor<?xf64>
  %one = arith.constant 1 : index
  %w = tensor.extract %r[%one] : tensor<?xf64>
  return %w : f64
})";
  const FragmentInput x{Numbers({8}), Split::kNone};
  EXPECT_EQ(Collected(Execute(kText, {x, 10}, {{Combine::kNone}})[0]), std::vector<double>{-4});
  (void)Execute(kText, {x, int64_t{1} << 30}, {{Combine::kNone}});
  const Status status = session_->SyncAll();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Message(status), HasSubstr("`large` wants 8 GiB"));
  EXPECT_EQ(session_->Reset(), OkStatus());
}

}  // namespace
}  // namespace lockstep::testing
