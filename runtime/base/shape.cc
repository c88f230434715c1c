#include "runtime/base/shape.h"

#include <algorithm>

namespace lockstep {

Status Shape::ValidateDims(absl::Span<const int64_t> dims, size_t element_size_bytes) {
  if (dims.size() > size_t{kMaxDims}) {
    return InvalidArgument("a shape has at most ", kMaxDims, " dimensions, this one has ",
                           dims.size());
  }
  constexpr int64_t kMaxBytes = int64_t{1} << 62;
  int64_t bytes = static_cast<int64_t>(element_size_bytes);
  for (int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("shape ", Shape(dims), " has a negative extent");
    // The other extents count even if the tensor is empty: strides are their products.
    if (dim == 0) continue;
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMaxBytes) {
      return InvalidArgument("shape ", Shape(dims), " is larger than 2^62 bytes");
    }
  }
  return OkStatus();
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims_[i]);
  }
  return text + "]";
}

Part EvenPart(int64_t count, int parts, int index) {
  const int64_t base = count / parts;
  const int64_t extra = count % parts;
  return {base * index + std::min<int64_t>(index, extra), base + (index < extra ? 1 : 0)};
}

}  // namespace lockstep
