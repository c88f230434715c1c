#include "runtime/fragment/known_results.h"

#include <utility>

namespace lockstep::fragment {
namespace {

// What a worker has that does not call, where those that do have `shape`.
Shape WithoutPart(const Shape& shape, Combine combine) {
  Shape without = shape;
  if (const auto dimension = DimensionOf(combine)) {
    without[*dimension] = 0;
  } else if (combine == Combine::kNone) {
    if (without.ndim() == 0) return {0};
    without[0] = 0;
  }
  return without;
}

}  // namespace

StatusOr<KnownResult> DescribeResult(const PlacedCall& call, int result) {
  const Combine combine = call.outputs()[static_cast<size_t>(result)].combine;
  KnownResult known;
  for (int index = 0; index < call.workers().size(); ++index) {
    const std::optional<Shape> shape = call.KnownShape(result, index);
    if (!shape.has_value()) {
      const TensorType& type = call.signature().results[static_cast<size_t>(result)].type;
      return InvalidArgument("result ", result, " of `", call.signature().function, "` is ",
                             type.ToString(), ": the fragment does not state how large it ",
                             "becomes; give its shape with the call");
    }
    known.shapes.push_back(call.Calls(index) ? *shape : WithoutPart(*shape, combine));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(known.layout, call.ResultLayout(result, known.shapes));
  return known;
}

}  // namespace lockstep::fragment
