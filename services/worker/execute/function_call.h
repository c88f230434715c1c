// A call of a module's function as a fragment: with this rank's parts, where they lie.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "schemas/values.capnp.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/prepared_call.h"

namespace lockstep::worker {

// On a rank that has a part of all that is dealt out. `results`: packed ids, 0: dropped. `call`
// calls the function, which returns a tensor, or a list of as many as there are results; a number
// is a tensor without dimensions, too. kInvalidArgument: an argument, or what it returns, is not
// what the call says.
Status RunFunction(
    SessionState& session, const tensor::Processors& places, PreparedCall& prepared,
    capnp::List<wire::Value>::Reader arguments, capnp::List<uint64_t>::Reader results,
    absl::FunctionRef<Status(absl::Span<const registers::Value>, registers::Value*)> call);

}  // namespace lockstep::worker
