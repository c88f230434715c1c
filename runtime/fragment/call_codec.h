// Calls on the wire, as bytes that workers compare (schemas/fragment_call.capnp, FragmentCall).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/fragment/placed_call.h"

namespace lockstep::fragment {

// The most bytes of a call that are read: layouts of a thousand ranks, for all arguments.
inline constexpr size_t kMaxCallBytes = size_t{4} << 20;

// What PlacedCall::Make() takes, but for signature and ranks.
struct CallParts {
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

// The same bytes for the same call. Of inputs' layouts only those are written that the split does
// not say.
std::string EncodeCall(const CallParts& call);

// kInvalidArgument: the bytes are no call, or it has more than Signature::kMaxValues of anything,
// or layouts of ranks that a world of `world_size` does not have. They may come from anywhere, and
// have any alignment.
StatusOr<CallParts> DecodeCall(absl::Span<const std::byte> bytes, int world_size);

}  // namespace lockstep::fragment
