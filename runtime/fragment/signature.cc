#include "runtime/fragment/signature.h"

#include <algorithm>

namespace lockstep::fragment {
namespace {

Status CheckType(std::string_view what, size_t number, const TensorType& type) {
  if (type.ndim() > Shape::kMaxDims) {
    return InvalidArgument(what, ' ', number, " has ", type.ndim(), " dimensions; a tensor has at ",
                           "most ", Shape::kMaxDims);
  }
  if (type.scalar && type.ndim() != 0) {
    return InvalidArgument(what, ' ', number, " is said to be a scalar, and has dimensions");
  }
  std::vector<int64_t> extents;
  for (const int64_t extent : type.extents) {
    if (extent < kOpen) {
      return InvalidArgument(what, ' ', number, " has the extent ", extent);
    }
    if (extent != kOpen) extents.push_back(extent);
  }
  return Shape(extents).Validate(SizeOf(type.dtype));
}

}  // namespace

bool IsFragmentDType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kFloat32:
    case DType::kFloat64:
      return true;
    default:
      return false;
  }
}

bool TensorType::Admits(const Shape& shape) const {
  if (shape.ndim() != ndim()) return false;
  for (int d = 0; d < ndim(); ++d) {
    if ((*this)[d] != kOpen && (*this)[d] != shape[d]) return false;
  }
  return true;
}

bool TensorType::IsClosed() const {
  return std::find(extents.begin(), extents.end(), kOpen) == extents.end();
}

std::string TensorType::ToString() const {
  std::string text(Name(dtype));
  if (scalar) return text;
  text += '[';
  for (int d = 0; d < ndim(); ++d) {
    if (d > 0) text += ", ";
    text += (*this)[d] == kOpen ? "?" : std::to_string((*this)[d]);
  }
  return text + "]";
}

Status Signature::Validate() const {
  if (num_arguments() > kMaxValues || num_results() > kMaxValues) {
    return InvalidArgument("a fragment has at most ", kMaxValues, " arguments and as many results;",
                           " this one has ", num_arguments(), " and ", num_results());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(CheckType("argument", i, arguments[i].type));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(CheckType("result", i, results[i].type));
  }
  return OkStatus();
}

std::string Signature::ToString() const {
  std::string text = function + "(";
  for (size_t i = 0; i < arguments.size(); ++i) {
    text += (i > 0 ? ", " : "") + arguments[i].type.ToString();
  }
  text += ") -> (";
  for (size_t i = 0; i < results.size(); ++i) {
    text += (i > 0 ? ", " : "") + results[i].type.ToString();
  }
  return text + ")";
}

}  // namespace lockstep::fragment
