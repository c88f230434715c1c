// What is computed, against plain loops.
#include <cmath>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

constexpr char kRowSums[] = R"(
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @row_sums(%x: tensor<?x?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x?xf64>
  %e = tensor.empty(%n) : tensor<?xf64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %y = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf64>) outs(%init : tensor<?xf64>) {
  ^bb0(%a: f64, %s: f64):
    %t = arith.addf %s, %a : f64
    linalg.yield %t : f64
  } -> tensor<?xf64>
  return %y : tensor<?xf64>
})";

TEST(FragmentArithmeticTest, OneObjectSumsRowsOfMatricesOfAnyShape) {
  FragmentObject object(kRowSums);
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{10, 10}, {1, 7},    {7, 1},   {0, 5},
                                                           {5, 0},   {4, 1500}, {3, 1500}};
  for (const auto& [rows, columns] : shapes) {
    const std::vector<double> x = Numbers<double>(rows * columns);
    std::vector<double> expected(rows, 0);
    for (int64_t i = 0; i < rows * columns; ++i) expected[i / columns] += x[i];
    const auto results = object.Results({Operand::Of<double>({rows, columns}, x)});
    EXPECT_EQ(results[0].shape, std::vector<int64_t>{rows});
    EXPECT_EQ(results[0].As<double>(), expected) << rows << "x" << columns;
  }
}

TEST(FragmentArithmeticTest, ReductionsHaveTheirIdentityWhereThereAreNoRows) {
  FragmentObject object(R"(
#all = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @extremes(%x: tensor<?xf32>) -> (tensor<f32>, tensor<f32>) {
  %low = arith.constant dense<0xFF800000> : tensor<f32>
  %high = arith.constant dense<0x7F800000> : tensor<f32>
  %max = linalg.reduce { arith.maximumf } ins(%x : tensor<?xf32>) outs(%low : tensor<f32>) dimensions = [0]
  %min = linalg.reduce { arith.minimumf } ins(%x : tensor<?xf32>) outs(%high : tensor<f32>) dimensions = [0]
  return %max, %min : tensor<f32>, tensor<f32>
})");
  auto results = object.Results({Operand::Of<float>({4}, {3, -8, 5, 2})});
  EXPECT_EQ(results[0].As<float>()[0], 5);
  EXPECT_EQ(results[1].As<float>()[0], -8);
  results = object.Results({Operand::Of<float>({0}, {})});
  EXPECT_EQ(results[0].As<float>()[0], -INFINITY);
  EXPECT_EQ(results[1].As<float>()[0], INFINITY);
}

TEST(FragmentArithmeticTest, ChainsOfElementwiseOperationsNeedNoMemoryBetweenThem) {
  FragmentObject object(R"(
func.func @chain(%x: tensor<?x?xf64>, %y: tensor<?x?xf64>, %s: f64) -> tensor<?x?xf64> {
  %sum = arith.addf %x, %y : tensor<?x?xf64>
  %product = arith.mulf %sum, %x : tensor<?x?xf64>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x?xf64>
  %m = tensor.dim %x, %c1 : tensor<?x?xf64>
  %all = tensor.splat %s[%n, %m] : tensor<?x?xf64>
  %scaled = arith.mulf %product, %all : tensor<?x?xf64>
  %zero = arith.constant 0.0 : f64
  %zeros = tensor.splat %zero[%n, %m] : tensor<?x?xf64>
  %positive = arith.cmpf ogt, %scaled, %zeros : tensor<?x?xf64>
  %relu = arith.select %positive, %scaled, %zeros : tensor<?x?xi1>, tensor<?x?xf64>
  return %relu : tensor<?x?xf64>
})");
  const std::vector<double> x = Numbers<double>(6 * 5, 1);
  const std::vector<double> y = Numbers<double>(6 * 5, 2);
  Call call;
  ASSERT_EQ(object.Run(call, {Operand::Of<double>({6, 5}, x), Operand::Of<double>({6, 5}, y),
                              Operand::Of<double>({}, {2})}),
            LOCKSTEP_FRAGMENT_OK);
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(std::max(0.0, (x[i] + y[i]) * x[i] * 2));
  EXPECT_EQ(object.results[0].As<double>(), expected);
  EXPECT_EQ(call.allocations, 0);
}

TEST(FragmentArithmeticTest, ARowVectorIsBroadcastToAllRows) {
  FragmentObject object(R"(
#all = affine_map<(i, j) -> (i, j)>
#columns = affine_map<(i, j) -> (j)>
func.func @shift(%x: tensor<?x4xf32>, %row: tensor<4xf32>) -> tensor<?x4xf32> {
  %y = linalg.generic {indexing_maps = [#columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%row : tensor<4xf32>) outs(%x : tensor<?x4xf32>) {
  ^bb0(%r: f32, %a: f32):
    %t = arith.subf %a, %r : f32
    linalg.yield %t : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
})");
  const std::vector<float> x = Numbers<float>(12);
  const std::vector<float> row = {1, 2, 3, 4};
  const Operand argument = Operand::Of<float>({3, 4}, x);
  const auto results = object.Results({argument, Operand::Of<float>({4}, row)});
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] - row[i % 4]);
  EXPECT_EQ(results[0].As<float>(), expected);
  // The fragment writes over %x, and the caller's stays as it is.
  EXPECT_EQ(argument.As<float>(), x);
}

TEST(FragmentArithmeticTest, LoopsCarryTensorsAndReuseTheirMemory) {
  FragmentObject object(R"(
func.func @power(%x: tensor<?xf64>, %times: i64) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %times : i64 to index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> tensor<?xf64> {
    %next = arith.addf %t, %x : tensor<?xf64>
    scf.yield %next : tensor<?xf64>
  }
  return %y : tensor<?xf64>
})");
  const std::vector<double> x = Numbers<double>(1000);
  Call call;
  ASSERT_EQ(object.Run(call, {Operand::Of<double>({1000}, x), Operand::Of<int64_t>({}, {100})}),
            LOCKSTEP_FRAGMENT_OK);
  std::vector<double> expected;
  for (const double value : x) expected.push_back(value * 101);
  EXPECT_EQ(object.results[0].As<double>(), expected);
  EXPECT_EQ(call.live.size(), 0u);
  EXPECT_LE(call.most_bytes, 3u * 8000);
}

TEST(FragmentArithmeticTest, WhileLoopsStopAtTheirCondition) {
  FragmentObject object(R"(
func.func @newton(%x: tensor<?xf64>, %target: f64) -> (tensor<?xf64>, i64) {
  %half = arith.constant 0.5 : f64
  %one = arith.constant 1 : i64
  %none = arith.constant 0 : i64
  %c0 = arith.constant 0 : index
  %y:2 = scf.while (%t = %x, %count = %none) : (tensor<?xf64>, i64) -> (tensor<?xf64>, i64) {
    %first = tensor.extract %t[%c0] : tensor<?xf64>
    %go = arith.cmpf ogt, %first, %target : f64
    scf.condition(%go) %t, %count : tensor<?xf64>, i64
  } do {
  ^bb0(%t: tensor<?xf64>, %count: i64):
    %n = tensor.dim %t, %c0 : tensor<?xf64>
    %e = tensor.empty(%n) : tensor<?xf64>
    %next = linalg.map ins(%t : tensor<?xf64>) outs(%e : tensor<?xf64>) (%a: f64) {
      %b = arith.mulf %a, %half : f64
      linalg.yield %b : f64
    }
    %more = arith.addi %count, %one : i64
    scf.yield %next, %more : tensor<?xf64>, i64
  }
  return %y#0, %y#1 : tensor<?xf64>, i64
})");
  const auto results =
      object.Results({Operand::Of<double>({2}, {64, 32}), Operand::Of<double>({}, {1.5})});
  EXPECT_EQ(results[0].As<double>(), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(results[1].As<int64_t>(), (std::vector<int64_t>{6}));
}

TEST(FragmentArithmeticTest, IntegersAndBoolsAreComputedWith) {
  FragmentObject object(R"(
func.func @ints(%a: tensor<?xi32>, %b: tensor<?xi64>, %mask: tensor<?xi1>) -> (tensor<?xi32>, tensor<?xi64>, tensor<?xi1>) {
  %c = arith.muli %a, %a : tensor<?xi32>
  %negative = arith.subi %b, %b : tensor<?xi64>
  %d = arith.select %mask, %b, %negative : tensor<?xi1>, tensor<?xi64>
  %less = arith.cmpi slt, %b, %negative : tensor<?xi64>
  %e = arith.xori %less, %mask : tensor<?xi1>
  return %c, %d, %e : tensor<?xi32>, tensor<?xi64>, tensor<?xi1>
})");
  const auto results =
      object.Results({Operand::Of<int32_t>({3}, {-5, 6, 7}), Operand::Of<int64_t>({3}, {-1, 2, -3}),
                      Operand::Of<uint8_t>({3}, {1, 0, 1})});
  EXPECT_EQ(results[0].As<int32_t>(), (std::vector<int32_t>{25, 36, 49}));
  EXPECT_EQ(results[1].As<int64_t>(), (std::vector<int64_t>{-1, 0, -3}));
  EXPECT_EQ(results[2].As<uint8_t>(), (std::vector<uint8_t>{0, 0, 0}));
}

TEST(FragmentArithmeticTest, MathIsThatOfLibm) {
  FragmentObject object(R"(
func.func @functions(%x: tensor<?xf64>) -> (tensor<?xf64>, tensor<?xf64>) {
  %a = math.exp %x : tensor<?xf64>
  %b = math.tanh %x : tensor<?xf64>
  return %a, %b : tensor<?xf64>, tensor<?xf64>
})");
  std::vector<double> x;
  for (int i = 0; i < 37; ++i) x.push_back(i / 7.0 - 2);
  const auto results = object.Results({Operand::Of<double>({37}, x)});
  for (size_t i = 0; i < x.size(); ++i) {
    // glibc's vectors may be off by 4 units in the last place.
    EXPECT_NEAR(results[0].As<double>()[i], std::exp(x[i]), std::exp(x[i]) * 1e-15);
    EXPECT_EQ(results[1].As<double>()[i], std::tanh(x[i]));
  }
}

TEST(FragmentArithmeticTest, AFragmentMayAskWhereItsPartLies) {
  FragmentObject object(R"(
func.func @where(%first: index {lockstep.offset = array<i64: 1, 0>}, %x: tensor<?x2xf64>,
                 %rows: index {lockstep.global_size = array<i64: 1, 0>}) -> (i64, i64) {
  %a = arith.index_cast %first : index to i64
  %b = arith.index_cast %rows : index to i64
  return %a, %b : i64, i64
})");
  ASSERT_EQ(object.answer().signature.arguments.size(), 1u);
  EXPECT_TRUE(object.answer().signature.arguments[0].uses_offset);
  EXPECT_TRUE(object.answer().signature.arguments[0].uses_global_shape);
  Operand x = Operand::Of<double>({1, 2}, {1, 2});
  x.offsets = {40, 0};
  x.global_sizes = {100, 2};
  const auto results = object.Results({x});
  EXPECT_EQ(results[0].As<int64_t>(), std::vector<int64_t>{40});
  EXPECT_EQ(results[1].As<int64_t>(), std::vector<int64_t>{100});
}

TEST(FragmentArithmeticTest, TensorsOfIndicesAreComputedInside) {
  FragmentObject object(R"(
func.func @reverse(%x: tensor<?xf64>) -> tensor<?xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf64>
  %last = arith.subi %n, %c1 : index
  %at = tensor.generate %n {
  ^bb0(%i: index):
    %j = arith.subi %last, %i : index
    tensor.yield %j : index
  } : tensor<?xindex>
  %y = tensor.generate %n {
  ^bb0(%i: index):
    %j = tensor.extract %at[%i] : tensor<?xindex>
    %v = tensor.extract %x[%j] : tensor<?xf64>
    tensor.yield %v : f64
  } : tensor<?xf64>
  return %y : tensor<?xf64>
})");
  EXPECT_EQ(object.Results({Operand::Of<double>({3}, {1, 2, 3})})[0].As<double>(),
            (std::vector<double>{3, 2, 1}));
}

TEST(FragmentArithmeticTest, SizesThatAreComputedFromOneAnotherAreToldAtOnce) {
  // Each is the sum of two of the one before: 2^60 steps, if each were followed.
  std::string text = "func.func @f(%n0: i64, %v: f64) -> tensor<?xf64> {\n";
  for (int i = 0; i < 60; ++i) {
    const std::string now = "%n" + std::to_string(i);
    const std::string next = std::to_string(i + 1);
    text += "  %m" + next + " = arith.addi " + now + ", " + now + " : i64\n";
    text += "  %n" + next + " = arith.subi %m" + next + ", " + now + " : i64\n";
  }
  text +=
      "  %size = arith.index_cast %n60 : i64 to index\n  %y = tensor.splat %v[%size] : "
      "tensor<?xf64>\n"
      "  return %y : tensor<?xf64>\n}";
  FragmentObject object(text);
  const auto results =
      object.Results({Operand::Of<int64_t>({}, {3}), Operand::Of<double>({}, {7})});
  EXPECT_EQ(results[0].As<double>(), (std::vector<double>{7, 7, 7}));
}

// One thread computes them, in order.
TEST(FragmentArithmeticTest, ParallelLoopsOfAFragmentAreLoops) {
  FragmentObject object(R"(func.func @f(%x: tensor<?xf64>) -> (tensor<?x?xf64>, f64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?xf64>
  %e = tensor.empty(%n, %n) : tensor<?x?xf64>
  %products = scf.forall (%i, %j) in (%n, %n) shared_outs(%o = %e) -> tensor<?x?xf64> {
    %a = tensor.extract %x[%i] : tensor<?xf64>
    %b = tensor.extract %x[%j] : tensor<?xf64>
    %p = arith.mulf %a, %b : f64
    %t = tensor.from_elements %p : tensor<1x1xf64>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf64> into tensor<?x?xf64>
    }
  }
  %sum = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%zero) -> f64 {
    %v = tensor.extract %x[%i] : tensor<?xf64>
    scf.reduce(%v : f64) {
    ^bb0(%a: f64, %b: f64):
      %s = arith.addf %a, %b : f64
      scf.reduce.return %s : f64
    }
  }
  return %products, %sum : tensor<?x?xf64>, f64
})");
  const std::vector<Operand> results = object.Results({Operand::Of<double>({3}, {1, 2, 5})});
  EXPECT_EQ(results[0].As<double>(), (std::vector<double>{1, 2, 5, 2, 4, 10, 5, 10, 25}));
  EXPECT_EQ(results[1].As<double>(), std::vector<double>{8});
}

// MLIR folds these to constants, also where the extents are open.
TEST(FragmentArithmeticTest, ATensorIsComparedWithItself) {
  FragmentObject object(R"(func.func @f(%x: tensor<?xi64>, %y: tensor<2x?xf64>)
    -> (tensor<?xi64>, tensor<?xi64>, tensor<?xi1>, tensor<2x?xi1>) {
  %none = arith.subi %x, %x : tensor<?xi64>
  %nothing = arith.xori %x, %x : tensor<?xi64>
  %equal = arith.cmpi eq, %x, %x : tensor<?xi64>
  %is_nan = arith.cmpf une, %y, %y : tensor<2x?xf64>
  return %none, %nothing, %equal, %is_nan : tensor<?xi64>, tensor<?xi64>, tensor<?xi1>, tensor<2x?xi1>
})");
  const std::vector<Operand> results = object.Results(
      {Operand::Of<int64_t>({3}, {5, -7, 0}), Operand::Of<double>({2, 1}, {NAN, 1})});
  EXPECT_EQ(results[0].As<int64_t>(), std::vector<int64_t>(3, 0));
  EXPECT_EQ(results[1].As<int64_t>(), std::vector<int64_t>(3, 0));
  EXPECT_EQ(results[2].bytes, std::vector<uint8_t>(3, 1));
  EXPECT_EQ(results[3].bytes, (std::vector<uint8_t>{1, 0}));
}

TEST(FragmentArithmeticTest, ResultsMayBeArgumentsConstantsAndEachOther) {
  FragmentObject object(R"(
func.func @same(%x: tensor<?xf64>) -> (tensor<?xf64>, tensor<?xf64>, tensor<3xf64>) {
  %c = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf64>
  return %x, %x, %c : tensor<?xf64>, tensor<?xf64>, tensor<3xf64>
})");
  const std::vector<double> x = {4, 5};
  const auto results = object.Results({Operand::Of<double>({2}, x)});
  EXPECT_EQ(results[0].As<double>(), x);
  EXPECT_EQ(results[1].As<double>(), x);
  EXPECT_EQ(results[2].As<double>(), (std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace lockstep::fragment
