// Signature: what a fragment takes, and what it gives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace lockstep::fragment {

// An extent that is known when the fragment runs: "?".
inline constexpr int64_t kOpen = -1;

// Whether compiled fragments compute with it: float32, float64, int32, int64, bool.
bool IsFragmentDType(DType dtype);

// A tensor, or a scalar, which is passed as a tensor of rank 0 is. Extents are kOpen or not
// negative.
struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> extents = {};
  bool scalar = false;  // says "f64", and not "tensor<f64>"

  int ndim() const { return static_cast<int>(extents.size()); }
  int64_t operator[](int d) const { return extents[static_cast<size_t>(d)]; }
  // As many dimensions, and each either open or the same.
  bool Admits(const Shape& shape) const;
  // The extents, if all of them are stated.
  bool IsClosed() const;

  // "float32[?, 4]", "float64" of a scalar
  std::string ToString() const;
  bool operator==(const TensorType&) const = default;
};

struct Signature {
  struct Argument {
    TensorType type;
    // Whether the fragment asks where the part that it is given lies in the whole tensor, and how
    // large that is.
    bool uses_offset = false;
    bool uses_global_shape = false;
    bool operator==(const Argument&) const = default;
  };

  struct Result {
    TensorType type;
    // What is compiled tells the extents before it runs, from those of the arguments. Where this is
    // false and an extent is open, the caller has to tell it.
    bool sizes_known = false;
    bool operator==(const Result&) const = default;
  };

  // Most arguments, and results.
  static constexpr int kMaxValues = 64;

  std::string function;
  std::vector<Argument> arguments;
  std::vector<Result> results;

  int num_arguments() const { return static_cast<int>(arguments.size()); }
  int num_results() const { return static_cast<int>(results.size()); }
  // kInvalidArgument: more than kMaxValues, too many dimensions, an extent below kOpen, a scalar
  // with dimensions. For one that comes from elsewhere.
  Status Validate() const;

  // "kmeans(float64[?, 2], float64[8, 2]) -> (float64[8, 2], int64[8])"
  std::string ToString() const;
  bool operator==(const Signature&) const = default;
};

}  // namespace lockstep::fragment
