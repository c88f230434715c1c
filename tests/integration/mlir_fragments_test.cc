// Fragments that MLIR compiles, from the client's call to the value: with fewer and more workers
// than rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/client/session.h"
#include "runtime/fragment/plan_call.h"
#include "runtime/plan/program.h"
#include "tests/integration/compiled_fragments_fixture.h"

namespace lockstep::testing {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;
using ::testing::ElementsAre;

#define EXPECT_OK(expression) EXPECT_EQ((expression), OkStatus())

class MlirFragmentsTest : public CompiledFragmentsFixture {};
INSTANTIATE_TEST_SUITE_P(Workers, MlirFragmentsTest, ::testing::Values(1, 2, 3, 4, 8),
                         ::testing::PrintToStringParamName());

constexpr char kRowSums[] = R"(
func.func @row_sums(%x: tensor<?x?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x?xf64>
  %e = tensor.empty(%n) : tensor<?xf64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %y = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf64>) outs(%init : tensor<?xf64>) dimensions = [1]
  return %y : tensor<?xf64>
})";

constexpr char kOwnSum[] = R"(
func.func @own_sum(%x: tensor<?xf64>) -> (tensor<f64>, tensor<3xf64>) {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<f64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<?xf64>) outs(%init : tensor<f64>) dimensions = [0]
  %number = tensor.extract %sum[] : tensor<f64>
  %e3 = tensor.empty() : tensor<3xf64>
  %three = linalg.fill ins(%number : f64) outs(%e3 : tensor<3xf64>) -> tensor<3xf64>
  return %sum, %three : tensor<f64>, tensor<3xf64>
})";
constexpr char kTwice[] = R"(
func.func @twice(%s: tensor<f64>, %t: tensor<3xf64>) -> (tensor<f64>, tensor<3xf64>) {
  %s2 = arith.addf %s, %s : tensor<f64>
  %t2 = arith.addf %t, %t : tensor<3xf64>
  return %s2, %t2 : tensor<f64>, tensor<3xf64>
})";

// Two rows: with more workers, some have none of what each keeps, also two calls later.
TEST_P(MlirFragmentsTest, WhatEachWorkerKeepsIsTakenAgain) {
  const HostTensor two = HostTensor::Of<double>({2}, {3.0, 4.0});
  const std::vector<FragmentOutput> kept(2, {Combine::kNone});
  std::vector<DRef> own = Execute(kOwnSum, {{two, Split::kRows}}, kept);
  const auto twice = [&](const std::vector<FragmentOutput>& outputs) {
    return Execute(kTwice, {{own[0], Split::kAsPlaced}, {own[1], Split::kAsPlaced}}, outputs);
  };
  own = twice(kept);
  const std::vector<DRef> combined = twice({{Combine::kAdd}, {Combine::kRows}});
  EXPECT_THAT(Collected(combined[0]), ElementsAre(4 * 7));
  if (GetParam() == 1) {
    EXPECT_THAT(Collected(combined[1]), ElementsAre(28, 28, 28));
  } else {
    EXPECT_THAT(Collected(combined[1]), ElementsAre(12, 12, 12, 16, 16, 16));
  }
  // Something else is there now: of all workers, as far as is known.
  for (Rank rank = 0; rank < GetParam(); ++rank) {
    EXPECT_OK(session_->DebugSet(own[0], rank, HostTensor::Of<double>({}, {1.0})));
    EXPECT_OK(session_->DebugSet(own[1], rank, HostTensor::Of<double>({3}, {1.0, 2.0, 3.0})));
  }
  EXPECT_THAT(Collected(twice({{Combine::kAdd}, {Combine::kRows}})[0]),
              ElementsAre(2.0 * GetParam()));
}

TEST_P(MlirFragmentsTest, SumsOfRowsAndOfColumns) {
  for (const Shape& shape : {Shape{10, 10}, Shape{1, 50}, Shape{50, 1}, Shape{150, 120}}) {
    const HostTensor x = Numbers(shape);
    const std::vector<double> elements = *x.Elements<double>();
    std::vector<double> rows(static_cast<size_t>(shape[0]), 0);
    for (size_t i = 0; i < elements.size(); ++i) {
      rows[i / static_cast<size_t>(shape[1])] += elements[i];
    }
    EXPECT_EQ(
        Collected(Execute(kRowSums, {{x, Split::kRows}}, {{Combine::kRows, Shape{shape[0]}}})[0]),
        rows);
    // Each worker sums up its columns.
    EXPECT_EQ(
        Collected(Execute(kRowSums, {{x, Split::kColumns}}, {{Combine::kAdd, Shape{shape[0]}}})[0]),
        rows);
  }
}

// One tensor twice, with different splits; a row that goes to every row; two equal numbers.
TEST_P(MlirFragmentsTest, OneTensorIsGivenByRowsAndWhole) {
  constexpr char kText[] = R"(
#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
func.func @products(%x: tensor<?x4xf64>, %all: tensor<?x4xf64>, %row: tensor<4xf64>, %a: f64, %b: f64)
    -> tensor<?x?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x4xf64>
  %m = tensor.dim %all, %c0 : tensor<?x4xf64>
  %empty = tensor.empty(%n) : tensor<?x4xf64>
  %shifted = linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x, %row : tensor<?x4xf64>, tensor<4xf64>) outs(%empty : tensor<?x4xf64>) {
  ^bb0(%u: f64, %v: f64, %o: f64):
    %s = arith.addf %u, %v : f64
    %t = arith.mulf %s, %a : f64
    %w = arith.mulf %t, %b : f64
    linalg.yield %w : f64
  } -> tensor<?x4xf64>
  %e = tensor.empty(%n, %m) : tensor<?x?xf64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<?x?xf64>) -> tensor<?x?xf64>
  %y = linalg.matmul_transpose_b ins(%shifted, %all : tensor<?x4xf64>, tensor<?x4xf64>)
      outs(%init : tensor<?x?xf64>) -> tensor<?x?xf64>
  return %y : tensor<?x?xf64>
})";
  constexpr int64_t kRows = 7;
  const HostTensor x = Numbers({kRows, 4});
  const HostTensor row = HostTensor::Of<double>({4}, std::vector<double>{1, 2, 3, 4});
  const auto result = Execute(kText, {{x, Split::kRows}, x, row, 2.0, 2.0},
                              {{Combine::kRows, Shape{kRows, kRows}}});
  const std::vector<double> elements = *x.Elements<double>();
  std::vector<double> expected;
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kRows; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 4; ++k) {
        sum += (elements[static_cast<size_t>(i * 4 + k)] + static_cast<double>(k + 1)) * 4 *
               elements[static_cast<size_t>(j * 4 + k)];
      }
      expected.push_back(sum);
    }
  }
  EXPECT_EQ(Collected(result[0]), expected);
}

std::string SumOf(const std::string& arguments, const std::string& reductions) {
  return "func.func @sum(" + arguments + R"() -> f64 {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<f64>
  %0 = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
)" + reductions +
         R"(
  %r = tensor.extract %sum[] : tensor<f64>
  return %r : f64
})";
}
std::string Sum() {
  return SumOf("%x: tensor<?xf64>",
               "%sum = linalg.reduce { arith.addf } ins(%x : tensor<?xf64>) "
               "outs(%0 : tensor<f64>) dimensions = [0]");
}

TEST_P(MlirFragmentsTest, ArgumentsOfDifferentLengthsAreAllCounted) {
  const std::string both =
      SumOf("%x: tensor<?xf64>, %y: tensor<?xf64>",
            "%1 = linalg.reduce { arith.addf } ins(%x : tensor<?xf64>) outs(%0 : tensor<f64>) "
            "dimensions = [0]\n%sum = linalg.reduce { arith.addf } ins(%y : tensor<?xf64>) "
            "outs(%1 : tensor<f64>) dimensions = [0]");
  const HostTensor x = HostTensor::Of<double>({10}, std::vector<double>(10, 1));
  const HostTensor y = HostTensor::Of<double>({2}, {100, 100});
  EXPECT_THAT(
      Collected(Execute(both, {{x, Split::kRows}, {y, Split::kRows}}, {{Combine::kAdd}})[0]),
      ElementsAre(210));
}

TEST_P(MlirFragmentsTest, HowAnInputLiesChangesNoResult) {
  std::vector<Rank> ranks(static_cast<size_t>(GetParam()));
  std::iota(ranks.rbegin(), ranks.rend(), 0);
  const plan::Mesh reversed = Unwrap(plan::Mesh::Line(ranks));
  const HostTensor numbers = HostTensor::Of<double>({4}, {1, 2, 3, 4});
  for (const plan::Placement& placement :
       {plan::Placement::Replicate(), plan::Placement::Shard(0)}) {
    const DRef x = Unwrap(session_->Place(
        numbers, Unwrap(plan::Layout::Make({4}, DType::kFloat64, reversed, {placement}))));
    for (int again = 0; again < 2; ++again) {
      const DRef rows = Execute(Sum(), {{x, Split::kRows}}, {{Combine::kAdd}})[0];
      EXPECT_THAT(Collected(rows), ElementsAre(10));
      EXPECT_THAT(Collected(Execute(Sum(), {{x, Split::kNone}}, {{Combine::kNone}})[0]),
                  ElementsAre(10));
    }
  }
}

TEST_P(MlirFragmentsTest, ASumOfNothingIsZero) {
  const DRef sum =
      Execute(Sum(), {{HostTensor::Of<double>({0}, {}), Split::kRows}}, {{Combine::kAdd}})[0];
  const std::vector<double> value = Collected(sum);
  EXPECT_THAT(value, ElementsAre(0));
  EXPECT_FALSE(std::signbit(value[0]));
}

TEST_P(MlirFragmentsTest, WhatIsWrittenByAnotherNameIsMovedAgain) {
  const plan::Layout whole = Unwrap(plan::Layout::Make(
      {4}, DType::kFloat64, Unwrap(plan::Mesh::Line(AllRanks())), {plan::Placement::Replicate()}));
  const DRef x = Unwrap(session_->Place(HostTensor::Of<double>({4}, {1, 1, 1, 1}), whole));
  const auto sum = [&] {
    return Collected(Execute(Sum(), {{x, Split::kRows}}, {{Combine::kAdd}})[0])[0];
  };
  EXPECT_EQ(sum(), 4);
  const DRef alias = Unwrap(session_->Call(Unwrap(session_->GetFunction("lockstep.identity")), x));
  const DRef twos = Unwrap(session_->Call(Unwrap(session_->GetFunction("lockstep.full")), Shape{4},
                                          2.0, DType::kFloat64));
  EXPECT_EQ(sum(), 4);
  const DRef copy = Unwrap(session_->GetFunction("lockstep.copy"));
  (void)Unwrap(session_->Call(copy, twos, alias));
  EXPECT_EQ(sum(), 8);
}

TEST_P(MlirFragmentsTest, LeastAndGreatest) {
  constexpr char kText[] = R"(
func.func @extremes(%x: tensor<?xi64>) -> (tensor<i64>, tensor<i64>) {
  %low = arith.constant dense<-9223372036854775808> : tensor<i64>
  %high = arith.constant dense<9223372036854775807> : tensor<i64>
  %max = linalg.reduce { arith.maxsi } ins(%x : tensor<?xi64>) outs(%low : tensor<i64>) dimensions = [0]
  %min = linalg.reduce { arith.minsi } ins(%x : tensor<?xi64>) outs(%high : tensor<i64>) dimensions = [0]
  return %max, %min : tensor<i64>, tensor<i64>
})";
  const auto results =
      Execute(kText, {{Numbers<int64_t>({5}), Split::kRows}}, {{Combine::kMax}, {Combine::kMin}});
  const std::vector<int64_t> elements = *Numbers<int64_t>({5}).Elements<int64_t>();
  EXPECT_EQ(Collected<int64_t>(results[0]),
            std::vector<int64_t>{*std::max_element(elements.begin(), elements.end())});
  EXPECT_EQ(Collected<int64_t>(results[1]),
            std::vector<int64_t>{*std::min_element(elements.begin(), elements.end())});
}

// Each worker knows where its rows lie in the whole.
TEST_P(MlirFragmentsTest, PartsAskWhereTheyLie) {
  constexpr char kText[] = R"(
func.func @places(%x: tensor<?xf64>, %first: index {lockstep.offset = array<i64: 0, 0>},
                  %rows: index {lockstep.global_size = array<i64: 0, 0>}) -> tensor<?xi64> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf64>
  %y = tensor.generate %n {
  ^bb0(%i: index):
    %j = arith.addi %i, %first : index
    %k = arith.subi %rows, %j : index
    %v = arith.index_cast %k : index to i64
    tensor.yield %v : i64
  } : tensor<?xi64>
  return %y : tensor<?xi64>
})";
  const auto places = Execute(kText, {{Numbers({6}), Split::kRows}}, {{Combine::kRows, Shape{6}}});
  EXPECT_EQ(Collected<int64_t>(places[0]), (std::vector<int64_t>{6, 5, 4, 3, 2, 1}));
}

// Gradient descent on |Xw - y|^2: X and y are placed once, w and its gradient stay on the workers.
TEST_P(MlirFragmentsTest, ALoopOfLinearRegressionKeepsItsDataWhereItIs) {
  constexpr char kGradient[] = R"(
func.func @gradient(%x: tensor<?x2xf64>, %y: tensor<?xf64>, %w: tensor<2xf64>) -> tensor<2xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x2xf64>
  %e = tensor.empty(%n) : tensor<?xf64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %p = linalg.matvec ins(%x, %w : tensor<?x2xf64>, tensor<2xf64>) outs(%init : tensor<?xf64>) -> tensor<?xf64>
  %d = arith.subf %p, %y : tensor<?xf64>
  %none = arith.constant dense<0.0> : tensor<2xf64>
  %g = linalg.vecmat ins(%d, %x : tensor<?xf64>, tensor<?x2xf64>) outs(%none : tensor<2xf64>) -> tensor<2xf64>
  return %g : tensor<2xf64>
})";
  constexpr char kStep[] = R"(
func.func @step(%w: tensor<2xf64>, %g: tensor<2xf64>, %rate: f64) -> tensor<2xf64> {
  %r = tensor.splat %rate : tensor<2xf64>
  %d = arith.mulf %g, %r : tensor<2xf64>
  %n = arith.subf %w, %d : tensor<2xf64>
  return %n : tensor<2xf64>
})";
  constexpr int64_t kRows = 6;
  std::vector<double> x;
  std::vector<double> y;
  for (int64_t i = 0; i < kRows; ++i) {
    const double at = static_cast<double>(i) / kRows;
    x.insert(x.end(), {1, at});
    y.push_back(3 - 2 * at);
  }
  const auto by_rows = [&](const Shape& shape) {
    std::vector<Rank> ranks(static_cast<size_t>(GetParam()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return Unwrap(plan::Layout::Make(shape, DType::kFloat64, Unwrap(plan::Mesh::Line(ranks)),
                                     {plan::Placement::Shard(0)}));
  };
  const DRef data =
      Unwrap(session_->Place(HostTensor::Of<double>({kRows, 2}, x), by_rows({kRows, 2})));
  const DRef truth = Unwrap(session_->Place(HostTensor::Of<double>({kRows}, y), by_rows({kRows})));
  DRef w = Execute(kStep,
                   {HostTensor::Of<double>({2}, std::vector<double>{0, 0}),
                    HostTensor::Of<double>({2}, std::vector<double>{0, 0}), 0},
                   {{Combine::kNone}})[0];
  for (int i = 0; i < 300; ++i) {
    const DRef gradient =
        Execute(kGradient, {{data, Split::kRows}, {truth, Split::kRows}, w}, {{Combine::kAdd}})[0];
    w = Execute(kStep, {w, gradient, 0.2}, {{Combine::kNone}})[0];
  }
  const std::vector<double> found = Collected(w);
  EXPECT_NEAR(found[0], 3, 1e-6);
  EXPECT_NEAR(found[1], -2, 1e-6);
}

// Sums of rows, and the sum of these times a number, of values whose sums round: by a plan, and by
// calls.
TEST_P(MlirFragmentsTest, PlansMakeTheSameBits) {
  constexpr char kScaledSum[] = R"(
func.func @scaled_sum(%x: tensor<?xf64>, %by: f32) -> tensor<f64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<f64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
  %wide = arith.extf %by : f32 to f64
  %y = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = ["reduction"]} ins(%x : tensor<?xf64>) outs(%init : tensor<f64>) {
    ^bb0(%v: f64, %sum: f64):
      %m = arith.mulf %v, %wide : f64
      %s = arith.addf %m, %sum : f64
      linalg.yield %s : f64
  } -> tensor<f64>
  return %y : tensor<f64>
})";
  const CompiledFragment row_sums = Unwrap(session_->Compile(Mlir(kRowSums)));
  const CompiledFragment scaled_sum = Unwrap(session_->Compile(Mlir(kScaledSum)));
  for (const int64_t count : {0, 2, 151}) {
    std::vector<double> elements(static_cast<size_t>(count * 30));
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = std::sin(static_cast<double>(i)) * 1e3;
    }
    const plan::Layout whole = Unwrap(plan::Layout::Make({count, 30}, DType::kFloat64,
                                                         Unwrap(plan::Mesh::Line(AllRanks())),
                                                         {plan::Placement::Replicate()}));
    const plan::Layout total = Unwrap(
        plan::Layout::Make({}, DType::kFloat64, whole.mesh(), {plan::Placement::Replicate()}));
    const DRef x = Unwrap(session_->Place(HostTensor::Of<double>({count, 30}, elements), whole));

    plan::ProgramBuilder program;
    const plan::ValueId rows =
        Unwrap(CallFragment(program, "row_sums", row_sums.signature(), AllRanks(),
                            {{program.Input("x", whole), Split::kRows}},
                            {{Combine::kRows, Shape{count}}}))
            .results.front();
    const plan::ValueId sum =
        Unwrap(CallFragment(program, "scaled_sum", scaled_sum.signature(), AllRanks(),
                            {{rows, Split::kAsPlaced}, 0.1}, {{Combine::kAdd}}))
            .results.front();
    program.Output("rows", rows);
    program.Output("sum", program.Reshard(sum, total));
    BoundPlan plan = Unwrap(session_->Bind(
        Unwrap(program.Build()),
        {.inputs = {{"x", x}}, .fragments = {{"row_sums", row_sums}, {"scaled_sum", scaled_sum}}}));
    for (int i = 0; i < 2; ++i) EXPECT_OK(plan.Execute());

    const DRef called_rows =
        Unwrap(session_->Execute(row_sums, {{x, Split::kRows}}, {{Combine::kRows, Shape{count}}}))
            .front();
    const DRef called_sum =
        Unwrap(session_->Execute(scaled_sum, {{called_rows, Split::kRows}, 0.1}, {{Combine::kAdd}}))
            .front();
    EXPECT_EQ(Collected(Unwrap(plan.Output("rows"))), Collected(called_rows));
    EXPECT_EQ(Collected(Unwrap(plan.Output("sum"))),
              Collected(Unwrap(session_->Reshard(called_sum, total))));
  }
}

}  // namespace
}  // namespace lockstep::testing
