// What commands say and ask of the layouts that registers carry.
#pragma once

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/plain_call.h"
#include "runtime/module/function.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/session_state.h"

namespace lockstep::worker {

// The register carries the layout that the command names, or none. kInvalidArgument for what is no
// layout in a world of that size.
Status DeclareLayout(SessionState& session, wire::Command::DeclareLayout::Reader declare,
                     int world_size);

// The body of this rank's answer: the register's layout, if this is the first rank of its mesh;
// else empty.
control::Frame FindLayout(const SessionState& session, wire::Command::FindLayout::Reader find,
                          Rank rank);

// The registers in argument number `position` carry no layout any more if `function` may write to
// it: it is about to be called.
void ForgetWritten(SessionState& session, const module::Function& function, size_t position,
                   const wire::Value::Reader& argument);
void ForgetWritten(SessionState& session, const module::Function& function, size_t position,
                   const control::PlainArgument& argument);

}  // namespace lockstep::worker
