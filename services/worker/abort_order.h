// What the controller says when a session has failed elsewhere (schemas/membership.capnp, Abort).
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/control/error_codec.h"

namespace lockstep::worker {

struct AbortOrder {
  Generation generation;
  uint64_t from_command = 0;  // the first command that is not executed; 0: none is
  control::RemoteError cause;
};

}  // namespace lockstep::worker
