#pragma once

#include "schemas/control.capnp.h"

namespace lockstep::worker {

// "allreduce", "reduce-scatter", ...: how errors, timelines and activities name the operation.
const char* Name(wire::CollectiveKind kind);

}  // namespace lockstep::worker
