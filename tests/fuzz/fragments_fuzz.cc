// What a fragment compiler has answered, or was found in a file: read, and called by its signature.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/fragment/compile_codec.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/fragment/split.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

using fragment::Combine;
using fragment::PlacedCall;
using fragment::Split;

constexpr int64_t kExtent = 5;  // of what is open; by 3 workers it does not divide, 8 are more

Shape Closed(const fragment::TensorType& type, int64_t extent) {
  Shape shape(type.extents);
  for (int d = 0; d < shape.ndim(); ++d) {
    if (shape[d] == fragment::kOpen) shape[d] = extent;
  }
  return shape;
}

// Whether what the workers get are parts of the whole.
void CheckParts(const PlacedCall& call) {
  for (int argument = 0; argument < call.signature().num_arguments(); ++argument) {
    const Shape& whole = call.inputs()[static_cast<size_t>(argument)].shape;
    for (int index = 0; index < call.workers().size(); ++index) {
      if (!plan::Contains(plan::WholeBox(whole), call.PartAt(argument, index))) std::abort();
    }
  }
}

void CheckResults(const PlacedCall& call) {
  for (int result = 0; result < call.signature().num_results(); ++result) {
    std::vector<Shape> shapes;
    for (int index = 0; index < call.workers().size(); ++index) {
      const std::optional<Shape> known = call.KnownShape(result, index);
      const auto& type = call.signature().results[static_cast<size_t>(result)].type;
      shapes.push_back(known.has_value() ? *known : Closed(type, index));
    }
    const auto layout = call.ResultLayout(result, shapes);
    if (!layout.ok() || !layout->has_value()) continue;
    // Each that calls has room for what it makes.
    for (int index = 0; index < call.workers().size(); ++index) {
      const Shape tile = (*layout)->TileAt(index).extents;
      if (call.Calls(index) && tile != shapes[static_cast<size_t>(index)]) std::abort();
    }
  }
}

}  // namespace

void ReadFragments(const uint8_t* data, size_t size) {
  const auto answer =
      fragment::DecodeAnswer({reinterpret_cast<const std::byte*>(data), size}, "fragment");
  if (!answer.ok() || !answer->result.ok()) return;
  const fragment::Signature& signature = answer->result->signature;
  (void)signature.ToString();
  for (const int workers : {1, 3, 8}) {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < workers; ++rank) ranks.push_back(rank);
    for (int choice = 0; choice < fragment::kCombineCount; ++choice) {
      std::vector<fragment::Input> inputs;
      for (const fragment::Signature::Argument& argument : signature.arguments) {
        const Split split = argument.type.ndim() > 1   ? static_cast<Split>(choice % 2)
                            : argument.type.ndim() > 0 ? Split::kRows
                                                       : Split::kNone;
        inputs.push_back({argument.type.dtype, Closed(argument.type, kExtent), split});
      }
      const std::vector<fragment::Output> outputs(signature.results.size(),
                                                  {static_cast<Combine>(choice)});
      const auto call =
          PlacedCall::Make(fragment::Kind::kMlir, signature, ranks, std::move(inputs), outputs);
      if (!call.ok()) continue;
      CheckParts(*call);
      CheckResults(*call);
    }
  }
}

}  // namespace lockstep::fuzz
