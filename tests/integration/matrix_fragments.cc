#include "tests/integration/matrix_fragments.h"

#include <algorithm>
#include <limits>

namespace lockstep::testing {
namespace {

constexpr char kBlend[] = R"(
func.func @blend(%x: tensor<?x?xi64>, %y: tensor<?x?xi64>, %by: i64) -> tensor<?x?xi64> {
  %r = linalg.map ins(%x, %y : tensor<?x?xi64>, tensor<?x?xi64>) outs(%x : tensor<?x?xi64>) (%a: i64, %b: i64) {
    %m = arith.muli %a, %by : i64
    %s = arith.addi %m, %b : i64
    linalg.yield %s : i64
  }
  return %r : tensor<?x?xi64>
})";
constexpr char kTurn[] = R"(
func.func @turn(%x: tensor<?x?xi64>) -> tensor<?x?xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x?xi64>
  %m = tensor.dim %x, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%m, %n) : tensor<?x?xi64>
  %r = linalg.transpose ins(%x : tensor<?x?xi64>) outs(%e : tensor<?x?xi64>) permutation = [1, 0]
  return %r : tensor<?x?xi64>
})";
constexpr char kProduct[] = R"(
func.func @product(%x: tensor<?x?xi64>, %y: tensor<?x?xi64>) -> tensor<?x?xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = tensor.dim %x, %c0 : tensor<?x?xi64>
  %m = tensor.dim %y, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%n, %m) : tensor<?x?xi64>
  %z = linalg.fill ins(%zero : i64) outs(%e : tensor<?x?xi64>) -> tensor<?x?xi64>
  %r = linalg.matmul ins(%x, %y : tensor<?x?xi64>, tensor<?x?xi64>) outs(%z : tensor<?x?xi64>) -> tensor<?x?xi64>
  return %r : tensor<?x?xi64>
})";
constexpr char kColumns[] = R"(
func.func @columns(%x: tensor<?x?xi64>) -> (tensor<1x?xi64>, tensor<1x?xi64>, tensor<1x?xi64>) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %low = arith.constant -9223372036854775808 : i64
  %high = arith.constant 9223372036854775807 : i64
  %m = tensor.dim %x, %c1 : tensor<?x?xi64>
  %e = tensor.empty(%m) : tensor<?xi64>
  %zeros = linalg.fill ins(%zero : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %lows = linalg.fill ins(%low : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %highs = linalg.fill ins(%high : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  %s = linalg.reduce { arith.addi } ins(%x : tensor<?x?xi64>) outs(%zeros : tensor<?xi64>) dimensions = [0]
  %g = linalg.reduce { arith.maxsi } ins(%x : tensor<?x?xi64>) outs(%lows : tensor<?xi64>) dimensions = [0]
  %l = linalg.reduce { arith.minsi } ins(%x : tensor<?x?xi64>) outs(%highs : tensor<?xi64>) dimensions = [0]
  %s1 = tensor.expand_shape %s [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  %g1 = tensor.expand_shape %g [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  %l1 = tensor.expand_shape %l [[0, 1]] output_shape [1, %m] : tensor<?xi64> into tensor<1x?xi64>
  return %s1, %g1, %l1 : tensor<1x?xi64>, tensor<1x?xi64>, tensor<1x?xi64>
})";
constexpr char kPlaces[] = R"(
func.func @places(%x: tensor<?x?xi64>, %i0: index {lockstep.offset = array<i64: 0, 0>},
                  %j0: index {lockstep.offset = array<i64: 0, 1>},
                  %rows: index {lockstep.global_size = array<i64: 0, 0>},
                  %columns: index {lockstep.global_size = array<i64: 0, 1>}) -> tensor<?x?xi64> {
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c7 = arith.constant 7 : index
  %r7 = arith.muli %rows, %c7 : index
  %whole = arith.addi %r7, %columns : index
  %r = linalg.map ins(%x : tensor<?x?xi64>) outs(%x : tensor<?x?xi64>) (%a: i64) {
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %gi = arith.addi %i, %i0 : index
    %gj = arith.addi %j, %j0 : index
    %i3 = arith.muli %gi, %c3 : index
    %j5 = arith.muli %gj, %c5 : index
    %ij = arith.addi %i3, %j5 : index
    %w = arith.addi %ij, %whole : index
    %v = arith.index_cast %w : index to i64
    %s = arith.addi %a, %v : i64
    linalg.yield %s : i64
  }
  return %r : tensor<?x?xi64>
})";

}  // namespace

Matrix Blend(const Matrix& x, const Matrix& y, int64_t by) {
  Matrix result = x;
  for (size_t i = 0; i < result.elements.size(); ++i) {
    result.elements[i] = x.elements[i] * static_cast<uint64_t>(by) + y.elements[i];
  }
  return result;
}

Matrix Turn(const Matrix& x) {
  Matrix result = Matrix::Of(x.columns, x.rows);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) result.At(j, i) = x.At(i, j);
  }
  return result;
}

Matrix Product(const Matrix& x, const Matrix& y) {
  Matrix result = Matrix::Of(x.rows, y.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t k = 0; k < x.columns; ++k) {
      for (int64_t j = 0; j < y.columns; ++j) result.At(i, j) += x.At(i, k) * y.At(k, j);
    }
  }
  return result;
}

std::vector<Matrix> Columns(const Matrix& x) {
  std::vector<Matrix> results = {
      Matrix::Of(1, x.columns),
      Matrix::Of(1, x.columns, static_cast<uint64_t>(std::numeric_limits<int64_t>::min())),
      Matrix::Of(1, x.columns, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))};
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      const auto element = static_cast<int64_t>(x.At(i, j));
      results[0].At(0, j) += x.At(i, j);
      uint64_t& most = results[1].At(0, j);
      most = static_cast<uint64_t>(std::max(static_cast<int64_t>(most), element));
      uint64_t& least = results[2].At(0, j);
      least = static_cast<uint64_t>(std::min(static_cast<int64_t>(least), element));
    }
  }
  return results;
}

Matrix Places(const Matrix& x) {
  Matrix result = x;
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      result.At(i, j) += static_cast<uint64_t>(3 * i + 5 * j + 7 * x.rows + x.columns);
    }
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> MatrixFragments() {
  return {{"blend", kBlend},
          {"turn", kTurn},
          {"product", kProduct},
          {"columns", kColumns},
          {"places", kPlaces}};
}

}  // namespace lockstep::testing
