// Products of matrices and vectors: by the BLAS, and by loops that give the same.
#include <array>

#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

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

TEST(FragmentProductTest, LargeProductsGoToTheBlasAndSmallOnesDoNot) {
  CheckMatmul<double>("f64", "0.0", true);
  CheckMatmul<float>("f32", "0.0", true);
}

TEST(FragmentProductTest, ProductsOfIntegersAreLoops) { CheckMatmul<int64_t>("i64", "0", false); }

TEST(FragmentProductTest, TransposedBatchedAndVectorProductsAgreeWithLoops) {
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

// result += first * second, where each letter is a dimension: those that the result lacks are
// summed up.
struct Einsum {
  std::string first;
  std::string second;
  std::string result;
};

int64_t ExtentOf(char dimension) {
  return dimension == 'b' ? 2 : dimension == 'm' ? 3 : dimension == 'n' ? 5 : 4;
}

std::vector<int64_t> ShapeOf(const std::string& dimensions) {
  std::vector<int64_t> shape;
  for (const char dimension : dimensions) shape.push_back(ExtentOf(dimension));
  return shape;
}

int64_t CountOf(const std::string& dimensions) {
  int64_t count = 1;
  for (const char dimension : dimensions) count *= ExtentOf(dimension);
  return count;
}

std::string TypeOf(const std::string& dimensions) {
  std::string type = "tensor<";
  for (const char dimension : dimensions) type += std::to_string(ExtentOf(dimension)) + "x";
  return type + "f64>";
}

// One fragment with a linalg.generic for each; its arguments are %a0, %b0, %a1, ...
std::string TextOfAll(const std::vector<Einsum>& sums, const std::string& body) {
  std::string arguments;
  std::string lines;
  std::string values;
  std::string types;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto& [first, second, result] = sums[i];
    const std::string n = std::to_string(i);
    // Loops along the result's dimensions are parallel, and come first.
    std::string loops = result;
    for (const char c : first + second)
      if (loops.find(c) == std::string::npos) loops += c;
    const auto list = [](const std::string& letters) {
      std::string text;
      for (const char c : letters) text += (text.empty() ? "" : ", ") + std::string(1, c);
      return "(" + text + ")";
    };
    std::string maps;
    for (const std::string& operand : {first, second, result})
      maps += (maps.empty() ? "affine_map<" : ", affine_map<") + list(loops) + " -> " +
              list(operand) + ">";
    std::string iterators;
    for (size_t loop = 0; loop < loops.size(); ++loop)
      iterators += std::string(loop > 0 ? ", " : "") +
                   (loop < result.size() ? "\"parallel\"" : "\"reduction\"");
    arguments +=
        (i > 0 ? ", %a" : "%a") + n + ": " + TypeOf(first) + ", %b" + n + ": " + TypeOf(second);
    lines += "  %z" + n + " = arith.constant dense<1.0> : " + TypeOf(result) + "\n  %r" + n +
             " = linalg.generic {indexing_maps = [" + maps + "], iterator_types = [" + iterators +
             "]} ins(%a" + n + ", %b" + n + " : " + TypeOf(first) + ", " + TypeOf(second) +
             ") outs(%z" + n + " : " + TypeOf(result) +
             ") {\n  ^bb0(%x: f64, %y: f64, %s: f64):\n" + body +
             "    linalg.yield %u : f64\n  } -> " + TypeOf(result) + "\n";
    values += (i > 0 ? ", %r" : "%r") + n;
    types += (i > 0 ? ", " : "") + TypeOf(result);
  }
  return "func.func @sums(" + arguments + ") -> (" + types + ") {\n" + lines + "  return " +
         values + " : " + types + "\n}";
}

// Where an element lies, by the numbers that dimensions have.
int64_t PositionIn(const std::string& dimensions, const std::map<char, int64_t>& index) {
  int64_t position = 0;
  for (const char dimension : dimensions)
    position = position * ExtentOf(dimension) + index.at(dimension);
  return position;
}

std::vector<double> Evaluate(const Einsum& sum, const std::vector<double>& a,
                             const std::vector<double>& b) {
  std::vector<double> result(CountOf(sum.result), 1);
  std::map<char, int64_t> index;
  for (index['b'] = 0; index['b'] < 2; ++index['b'])
    for (index['m'] = 0; index['m'] < 3; ++index['m'])
      for (index['n'] = 0; index['n'] < 5; ++index['n'])
        for (index['k'] = 0; index['k'] < 4; ++index['k']) {
          bool is_repetition = false;
          for (const auto& [dimension, number] : index)
            is_repetition |= number > 0 && (sum.first + sum.second + sum.result).find(dimension) ==
                                               std::string::npos;
          if (!is_repetition)
            result[PositionIn(sum.result, index)] +=
                a[PositionIn(sum.first, index)] * b[PositionIn(sum.second, index)];
        }
  return result;
}

// Compiles all of them with a threshold of 1, and expects `products` calls of the BLAS.
void CheckEinsums(const std::vector<Einsum>& sums, const std::string& body, int products) {
  FragmentObject object(TextOfAll(sums, body), {}, 1);
  std::vector<Operand> arguments;
  std::vector<std::vector<double>> expected;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto a = Numbers<double>(CountOf(sums[i].first), static_cast<int>(2 * i));
    const auto b = Numbers<double>(CountOf(sums[i].second), static_cast<int>(2 * i + 1));
    arguments.push_back(Operand::Of<double>(ShapeOf(sums[i].first), a));
    arguments.push_back(Operand::Of<double>(ShapeOf(sums[i].second), b));
    expected.push_back(Evaluate(sums[i], a, b));
  }
  for (const bool with_blas : {true, false}) {
    Call call(with_blas);
    ASSERT_EQ(object.Run(call, arguments), LOCKSTEP_FRAGMENT_OK);
    EXPECT_EQ(call.products, call.context.matmul != nullptr ? products : 0);
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_EQ(object.results[i].As<double>(), expected[i])
          << sums[i].first << " " << sums[i].second << " " << sums[i].result;
    }
  }
}

TEST(FragmentProductTest, ProductsThatAreWrittenAsLoopsGoToTheBlas) {
  std::vector<Einsum> sums;
  for (const std::string result : {"mn", "nm"}) {
    for (const std::string a : {"mk", "km"}) {
      for (const std::string b : {"kn", "nk"}) {
        sums.push_back({a, b, result});
        sums.push_back({"b" + b, "b" + a, "b" + result});
      }
    }
  }
  for (const std::string a : {"mk", "km"}) {
    sums.push_back({a, "k", "m"});
    sums.push_back({"k", a, "m"});
    sums.push_back({"b" + a, "bk", "bm"});
  }
  sums.push_back({"k", "k", ""});
  CheckEinsums(sums, "    %t = arith.mulf %x, %y : f64\n    %u = arith.addf %s, %t : f64\n",
               static_cast<int>(sums.size()));
  CheckEinsums({{"mk", "kn", "mn"}},
               "    %t = arith.mulf %y, %x : f64\n    %u = arith.addf %t, %s : f64\n", 1);
}

TEST(FragmentProductTest, SumsThatAreNoProductsOfMatricesAreLoops) {
  CheckEinsums({{"mn", "mn", "mn"},     // summed up along nothing
                {"mk", "mk", ""},       // along two dimensions
                {"bk", "bk", "b"},      // a product of vectors for each b
                {"m", "n", "mn"},       // of a column by a row
                {"mbk", "bkn", "bmn"},  // batches that do not lie apart
                {"mnk", "k", "mn"},
                {"mk", "kbn", "mbn"}},
               "    %t = arith.mulf %x, %y : f64\n    %u = arith.addf %s, %t : f64\n", 0);
  // Twice as much, which is another sum.
  FragmentObject twice(
      TextOfAll({{"mk", "kn", "mn"}},
                "    %t = arith.mulf %x, %x : f64\n    %u = arith.addf %s, %t : f64\n"),
      {}, 1);
  Call call;
  ASSERT_EQ(twice.Run(call, {Operand::Of<double>({3, 4}, std::vector<double>(12, 3)),
                             Operand::Of<double>({4, 5}, std::vector<double>(20, 0))}),
            LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(call.products, 0);
  EXPECT_EQ(twice.results[0].As<double>(), std::vector<double>(15, 1 + 4 * 9));
}

TEST(FragmentProductTest, WhatIsComputedForAProductOfVectorsIsNotStored) {
  // The sum of (x + 1) * y: one loop, and nothing is allocated.
  FragmentObject object(R"(
func.func @f(%x: tensor<?xf64>, %y: tensor<?xf64>) -> tensor<f64> {
  %one = arith.constant 1.0 : f64
  %z = arith.constant dense<0.0> : tensor<f64>
  %more = linalg.map ins(%x : tensor<?xf64>) outs(%x : tensor<?xf64>) (%e: f64) {
    %m = arith.addf %e, %one : f64
    linalg.yield %m : f64
  }
  %s = linalg.dot ins(%more, %y : tensor<?xf64>, tensor<?xf64>) outs(%z : tensor<f64>) -> tensor<f64>
  return %s : tensor<f64>
})",
                        {}, 1);
  Call call;
  ASSERT_EQ(object.Run(call, {Operand::Of<double>({3}, {1, 2, 3}),
                              Operand::Of<double>({3}, {1, 10, 100})}),
            LOCKSTEP_FRAGMENT_OK);
  EXPECT_EQ(object.results[0].As<double>()[0], 432);
  EXPECT_EQ(call.allocations, 0);
  EXPECT_EQ(call.products, 0);
}

TEST(FragmentProductTest, StridesThatABlasDoesNotKnowAreLeftToLoops) {
  FragmentObject object(
      R"(func.func @f(%x: tensor<4x4xf64>, %v: tensor<4xf64>, %o: i64, %s: i64) -> (tensor<4xf64>, tensor<4x4xf64>) {
  %offset = arith.index_cast %o : i64 to index
  %stride = arith.index_cast %s : i64 to index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.extract_slice %x[%offset, 0][4, 4][%stride, 1] : tensor<4x4xf64> to tensor<4x4xf64>
  %u = tensor.extract_slice %v[%offset][4][%stride] : tensor<4xf64> to tensor<4xf64>
  %e1 = tensor.splat %zero : tensor<4xf64>
  %y = linalg.matvec ins(%x, %u : tensor<4x4xf64>, tensor<4xf64>) outs(%e1 : tensor<4xf64>) -> tensor<4xf64>
  %e2 = tensor.splat %zero : tensor<4x4xf64>
  %z = linalg.matmul ins(%rows, %x : tensor<4x4xf64>, tensor<4x4xf64>) outs(%e2 : tensor<4x4xf64>) -> tensor<4x4xf64>
  return %y, %z : tensor<4xf64>, tensor<4x4xf64>
})",
      {}, /*blas_threshold=*/1);
  const auto x = Numbers<double>(16);
  const auto v = Numbers<double>(4, 2);
  for (const auto& [offset, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, -1}, {2, 0}}) {
    Call call;
    ASSERT_EQ(
        object.Run(call, {Operand::Of<double>({4, 4}, x), Operand::Of<double>({4}, v),
                          Operand::Of<int64_t>({}, {offset}), Operand::Of<int64_t>({}, {stride})}),
        LOCKSTEP_FRAGMENT_OK);
    if (FindBlas().ok()) {
      EXPECT_EQ(call.products, stride == 1 ? 2 : 0);
    }
    std::vector<double> y(4);
    std::vector<double> z(16);
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < 4; ++k) {
        y[i] += x[i * 4 + k] * v[offset + k * stride];
        for (int j = 0; j < 4; ++j) z[i * 4 + j] += x[(offset + i * stride) * 4 + k] * x[k * 4 + j];
      }
    }
    EXPECT_EQ(object.results[0].As<double>(), y) << stride;
    EXPECT_EQ(object.results[1].As<double>(), z) << stride;
  }
}

}  // namespace
}  // namespace lockstep::fragment
