// Fragments of matrices in MLIR, and what they make, computed in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/shape.h"
#include "runtime/control/value.h"

namespace lockstep::testing {

// Unsigned: it wraps around, as i64 of a fragment does.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint64_t> elements = {};

  static Matrix Of(int64_t rows, int64_t columns, uint64_t element = 0) {
    return {rows, columns, std::vector<uint64_t>(static_cast<size_t>(rows * columns), element)};
  }
  uint64_t& At(int64_t i, int64_t j) { return elements[static_cast<size_t>(i * columns + j)]; }
  uint64_t At(int64_t i, int64_t j) const { return elements[static_cast<size_t>(i * columns + j)]; }
  Shape shape() const { return {rows, columns}; }
  HostTensor ToHost() const {
    std::vector<int64_t> numbers;
    for (const uint64_t element : elements) numbers.push_back(static_cast<int64_t>(element));
    return HostTensor::Of<int64_t>(shape(), numbers);
  }
};

// What the fragments of these names make.
// blend: x * by + y
Matrix Blend(const Matrix& x, const Matrix& y, int64_t by);
// turn: rows become columns
Matrix Turn(const Matrix& x);
// product
Matrix Product(const Matrix& x, const Matrix& y);
// columns: of each column the sum, the greatest, the least
std::vector<Matrix> Columns(const Matrix& x);
// places: what lies where in the whole is added
Matrix Places(const Matrix& x);

// Their names, and their texts.
std::vector<std::pair<std::string, std::string>> MatrixFragments();

}  // namespace lockstep::testing
