// Memory of a worker that its client uses where it lies: where that is, and how it is lent.
#pragma once

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/membership.h"

namespace lockstep::worker {

// Only a client whose process can be watched is let at the memory: should it be lost, or close its
// session and go on writing, the tensor is kept until the process has ended.
bool MayShare(SessionState& session, const tensor::Arena& arena, const tensor::Tensor& tensor);

// dtype and shape of `tensor`, and, if it `is_shared`, where in the arena it lies.
void WriteLocation(wire::TensorLocation::Builder location, const tensor::Arena& arena,
                   const tensor::Tensor& tensor, bool is_shared);

// What is lent is in the arena: new tensors are only if the worker works in host memory.
// `places` says where that is. Returns the answer, a TensorLocation. That there is no room for a
// new tensor is in the answer too, and fails no session.
StatusOr<control::Frame> Lend(SessionState& session, wire::Command::Lend::Reader lend,
                              tensor::Arena& arena, const tensor::Processors& places,
                              const RunningCommand& running, Rank rank);

}  // namespace lockstep::worker
