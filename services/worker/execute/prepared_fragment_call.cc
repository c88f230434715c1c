#include "services/worker/execute/prepared_fragment_call.h"

#include <memory>
#include <utility>

#include "runtime/fragment/identity.h"
#include "runtime/fragment/known_results.h"

namespace lockstep::worker {
namespace {

registers::LayoutPtr Shared(std::optional<plan::Layout> layout) {
  if (!layout.has_value()) return nullptr;
  return std::make_shared<const plan::Layout>(*std::move(layout));
}

}  // namespace

StatusOr<PreparedFragmentCall> PreparedFragmentCall::Make(const fragment::PlacedCall& call,
                                                          int index) {
  PreparedFragmentCall prepared;
  prepared.calls = call.Calls(index);
  for (int i = 0; i < call.signature().num_arguments(); ++i) {
    const fragment::Input& input = call.inputs()[static_cast<size_t>(i)];
    const plan::Box part = call.PartAt(i, index);
    prepared.arguments.push_back(
        {input.dtype, part.extents, part.begin, input.shape, Shared(call.ArgumentLayout(i))});
  }
  for (int i = 0; i < call.signature().num_results(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(fragment::KnownResult known, fragment::DescribeResult(call, i));
    const DType dtype = call.signature().results[static_cast<size_t>(i)].type.dtype;
    Result result{dtype, std::move(known.shapes[static_cast<size_t>(index)]),
                  Shared(std::move(known.layout)), std::nullopt};
    const auto op = fragment::ReductionOf(call.outputs()[static_cast<size_t>(i)].combine);
    if (op.has_value() && !prepared.calls) {
      LOCKSTEP_ASSIGN_OR_RETURN(result.identity, fragment::IdentityElement(*op, dtype));
    }
    prepared.results.push_back(std::move(result));
  }
  return prepared;
}

size_t PreparedFragmentCall::result_bytes() const {
  size_t bytes = 0;
  for (const Result& result : results) {
    bytes += static_cast<size_t>(result.shape.NumElements()) * SizeOf(result.dtype);
  }
  return bytes;
}

}  // namespace lockstep::worker
