// The extents of a dense, row-major tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace lockstep {

// A value type; extents are never negative in a shape that Validate() accepts. A rank-0 shape is a
// scalar with one element.
class Shape {
 public:
  // The most dimensions that a shape from outside may have.
  static constexpr int kMaxDims = 32;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  // Element by element: InlinedVector's own copy takes the unused inline space along, which g++
  // reports as uninitialised wherever it is inlined.
  Shape(const Shape& other) : Shape(other.dims()) {}
  Shape& operator=(const Shape& other) {
    dims_.assign(other.dims_.begin(), other.dims_.end());
    return *this;
  }

  int ndim() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  absl::Span<const int64_t> dims() const { return dims_; }

  // Product of the extents, in elements. Only meaningful for a valid shape.
  int64_t NumElements() const {
    int64_t count = 1;
    for (int64_t dim : dims_) count *= dim;
    return count;
  }

  // Elements of one slice along dimension 0 (of a scalar: 1).
  int64_t RowElements() const {
    int64_t count = 1;
    for (size_t i = 1; i < dims_.size(); ++i) count *= dims_[i];
    return count;
  }

  // OK if there are at most kMaxDims extents, none is negative, and the product of those that are
  // not 0, times `element_size_bytes`, fits into 2^62 bytes; else kInvalidArgument that shows the
  // shape.
  Status Validate(size_t element_size_bytes = 1) const {
    return ValidateDims(dims_, element_size_bytes);
  }
  // The same before there is a shape of them.
  static Status ValidateDims(absl::Span<const int64_t> dims, size_t element_size_bytes = 1);

  // "[2, 3]"
  std::string ToString() const;

  bool operator==(const Shape&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.ToString();
  }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

// The part of `count` rows that share `index` of `parts` gets when rows are dealt out as evenly as
// possible: floor(count / parts), and one more for the first count mod parts. `begin` is the first
// row of the part.
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};
Part EvenPart(int64_t count, int parts, int index);

}  // namespace lockstep
