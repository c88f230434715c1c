// Calls of fragments as clients send them: read, and checked against a signature of their own
// inputs.
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "runtime/fragment/call_codec.h"
#include "runtime/fragment/known_results.h"
#include "runtime/fragment/placed_call.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// One that takes what the call gives, of any size; and gives as many results as are expected.
fragment::Signature SignatureFor(const fragment::CallParts& call) {
  fragment::Signature signature;
  signature.function = "f";
  for (const fragment::Input& input : call.inputs) {
    const auto ndim = static_cast<size_t>(input.shape.ndim());
    signature.arguments.push_back({{input.dtype, std::vector<int64_t>(ndim, fragment::kOpen)}});
  }
  for (const fragment::Output& output : call.outputs) {
    const auto ndim = static_cast<size_t>(output.shape.has_value() ? output.shape->ndim() : 1);
    signature.results.push_back(
        {{DType::kFloat64, std::vector<int64_t>(ndim, fragment::kOpen)}, true});
  }
  return signature;
}

}  // namespace

void ReadFragmentCall(const uint8_t* data, size_t size) {
  constexpr int kWorkers = 3;
  const auto call =
      fragment::DecodeCall({reinterpret_cast<const std::byte*>(data), size}, kWorkers);
  if (!call.ok()) return;
  // What was read can be written, and is read as the same again.
  const std::string written = fragment::EncodeCall(*call);
  const auto again = fragment::DecodeCall(BytesOf(written), kWorkers);
  if (!again.ok() || fragment::EncodeCall(*again) != written) std::abort();
  const auto placed = fragment::PlacedCall::Make(fragment::Kind::kMlir, SignatureFor(*call),
                                                 {0, 1, 2}, call->inputs, call->outputs);
  if (!placed.ok()) return;
  for (int result = 0; result < placed->signature().num_results(); ++result) {
    const auto known = fragment::DescribeResult(*placed, result);
    if (!known.ok() || !known->layout.has_value()) continue;
    for (int index = 0; index < kWorkers; ++index) {
      const Shape tile = known->layout->TileAt(index).extents;
      if (tile != known->shapes[static_cast<size_t>(index)]) std::abort();
    }
  }
}

}  // namespace lockstep::fuzz
