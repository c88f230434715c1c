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

constexpr int kRanksOfCall = 3;

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

// What is known of its results is what their layouts say.
void CheckPlaced(fragment::Kind kind, const fragment::Signature& signature,
                 const fragment::CallParts& call) {
  const auto placed =
      fragment::PlacedCall::Make(kind, signature, {0, 1, 2}, call.inputs, call.outputs);
  if (!placed.ok()) return;
  for (int result = 0; result < placed->signature().num_results(); ++result) {
    const auto known = fragment::DescribeResult(*placed, result);
    if (!known.ok() || !known->layout.has_value()) continue;
    for (int index = 0; index < kRanksOfCall; ++index) {
      const Shape tile = known->layout->TileAt(index).extents;
      if (tile != known->shapes[static_cast<size_t>(index)]) std::abort();
    }
  }
}

}  // namespace

void ReadFragmentCall(const uint8_t* data, size_t size) {
  const auto call =
      fragment::DecodeCall({reinterpret_cast<const std::byte*>(data), size}, kRanksOfCall);
  if (!call.ok()) return;
  // What was read can be written, and is read as the same again.
  const std::string written = fragment::EncodeCall(*call);
  const auto again = fragment::DecodeCall(BytesOf(written), kRanksOfCall);
  if (!again.ok() || fragment::EncodeCall(*again) != written) std::abort();
  CheckPlaced(fragment::Kind::kMlir, SignatureFor(*call), *call);
  const auto function = fragment::SignatureOfFunction("f", call->inputs, call->outputs);
  if (function.ok()) CheckPlaced(fragment::Kind::kFunction, *function, *call);
}

}  // namespace lockstep::fuzz
