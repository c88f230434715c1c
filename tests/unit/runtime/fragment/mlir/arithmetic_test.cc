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

constexpr char kMatmul[] = R"(
func.func @product(%a: tensor<?x?xTYPE>, %b: tensor<?x?xTYPE>) -> tensor<?x?xTYPE> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant ZERO : TYPE
  %n = tensor.dim %a, %c0 : tensor<?x?xTYPE>
  %m = tensor.dim %b, %c1 : tensor<?x?xTYPE>
  %e = tensor.empty(%n, %m) : tensor<?x?xTYPE>
  %init = linalg.fill ins(%zero : TYPE) outs(%e : tensor<?x?xTYPE>) -> tensor<?x?xTYPE>
  %c = linalg.matmul ins(%a, %b : tensor<?x?xTYPE>, tensor<?x?xTYPE>) outs(%init : tensor<?x?xTYPE>) -> tensor<?x?xTYPE>
  return %c : tensor<?x?xTYPE>
})";

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

template <typename T>
std::vector<T> Product(const std::vector<T>& a, const std::vector<T>& b, int64_t m, int64_t k,
                       int64_t n) {
  std::vector<T> c(m * n, 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

template <typename T>
void CheckMatmul(const std::string& type, const std::string& zero, bool has_blas) {
  FragmentObject object(Replace(Replace(kMatmul, "TYPE", type), "ZERO", zero));
  const std::vector<std::array<int64_t, 3>> shapes = {
      {3, 4, 5}, {1, 1, 1}, {0, 3, 2}, {2, 0, 3}, {40, 50, 60}};
  for (const auto& [m, k, n] : shapes) {
    const std::vector<T> a = Numbers<T>(m * k, 1);
    const std::vector<T> b = Numbers<T>(k * n, 2);
    for (const bool with_blas : {true, false}) {
      Call call(with_blas);
      ASSERT_EQ(object.Run(call, {Operand::Of<T>({m, k}, a), Operand::Of<T>({k, n}, b)}),
                LOCKSTEP_FRAGMENT_OK);
      // The numbers are whole, so any order of summing up gives the same.
      EXPECT_EQ(object.results[0].template As<T>(), Product(a, b, m, k, n))
          << m << " " << k << " " << n;
      EXPECT_EQ(
          call.products,
          with_blas && has_blas && call.context.matmul != nullptr && m * k * n > 32768 ? 1 : 0);
    }
  }
}

TEST(FragmentArithmeticTest, LargeProductsGoToTheBlasAndSmallOnesDoNot) {
  CheckMatmul<double>("f64", "0.0", true);
  CheckMatmul<float>("f32", "0.0", true);
}

TEST(FragmentArithmeticTest, ProductsOfIntegersAreLoops) {
  CheckMatmul<int64_t>("i64", "0", false);
}

TEST(FragmentArithmeticTest, TransposedBatchedAndVectorProductsAgreeWithLoops) {
  // Each with a threshold of 1, so that the BLAS does it, and without a BLAS.
  FragmentObject object(R"(
func.func @products(%a: tensor<3x4xf64>, %b: tensor<3x5xf64>, %c: tensor<6x4xf64>, %v: tensor<4xf64>, %w: tensor<3xf64>,
                    %p: tensor<2x3x4xf64>, %q: tensor<2x4x5xf64>)
    -> (tensor<4x5xf64>, tensor<3x6xf64>, tensor<3xf64>, tensor<4xf64>, tensor<2x3x5xf64>) {
  %z45 = arith.constant dense<0.0> : tensor<4x5xf64>
  %z36 = arith.constant dense<0.0> : tensor<3x6xf64>
  %z3 = arith.constant dense<0.0> : tensor<3xf64>
  %z4 = arith.constant dense<0.0> : tensor<4xf64>
  %z235 = arith.constant dense<0.0> : tensor<2x3x5xf64>
  %ta = linalg.matmul_transpose_a ins(%a, %b : tensor<3x4xf64>, tensor<3x5xf64>) outs(%z45 : tensor<4x5xf64>) -> tensor<4x5xf64>
  %tb = linalg.matmul_transpose_b ins(%a, %c : tensor<3x4xf64>, tensor<6x4xf64>) outs(%z36 : tensor<3x6xf64>) -> tensor<3x6xf64>
  %mv = linalg.matvec ins(%a, %v : tensor<3x4xf64>, tensor<4xf64>) outs(%z3 : tensor<3xf64>) -> tensor<3xf64>
  %vm = linalg.vecmat ins(%w, %a : tensor<3xf64>, tensor<3x4xf64>) outs(%z4 : tensor<4xf64>) -> tensor<4xf64>
  %bm = linalg.batch_matmul ins(%p, %q : tensor<2x3x4xf64>, tensor<2x4x5xf64>) outs(%z235 : tensor<2x3x5xf64>) -> tensor<2x3x5xf64>
  return %ta, %tb, %mv, %vm, %bm : tensor<4x5xf64>, tensor<3x6xf64>, tensor<3xf64>, tensor<4xf64>, tensor<2x3x5xf64>
})",
                        {}, 1);
  const auto a = Numbers<double>(12, 1), b = Numbers<double>(15, 2), c = Numbers<double>(24, 3),
             v = Numbers<double>(4, 4), w = Numbers<double>(3, 5), p = Numbers<double>(24, 6),
             q = Numbers<double>(40, 7);
  const auto transpose = [](const std::vector<double>& x, int64_t rows, int64_t columns) {
    std::vector<double> y(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
    return y;
  };
  for (const bool with_blas : {true, false}) {
    Call call(with_blas);
    ASSERT_EQ(object.Run(call, {Operand::Of<double>({3, 4}, a), Operand::Of<double>({3, 5}, b),
                                Operand::Of<double>({6, 4}, c), Operand::Of<double>({4}, v),
                                Operand::Of<double>({3}, w), Operand::Of<double>({2, 3, 4}, p),
                                Operand::Of<double>({2, 4, 5}, q)}),
              LOCKSTEP_FRAGMENT_OK);
    EXPECT_EQ(call.products, call.context.matmul != nullptr ? 5 : 0);
    EXPECT_EQ(object.results[0].As<double>(), Product(transpose(a, 3, 4), b, 4, 3, 5));
    EXPECT_EQ(object.results[1].As<double>(), Product(a, transpose(c, 6, 4), 3, 4, 6));
    EXPECT_EQ(object.results[2].As<double>(), Product(a, v, 3, 4, 1));
    EXPECT_EQ(object.results[3].As<double>(), Product(w, a, 1, 3, 4));
    std::vector<double> batch =
        Product<double>({p.begin(), p.begin() + 12}, {q.begin(), q.begin() + 20}, 3, 4, 5);
    const std::vector<double> second =
        Product<double>({p.begin() + 12, p.end()}, {q.begin() + 20, q.end()}, 3, 4, 5);
    batch.insert(batch.end(), second.begin(), second.end());
    EXPECT_EQ(object.results[4].As<double>(), batch);
  }
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
