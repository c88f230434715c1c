// What the controller says to a worker on its command socket (schemas/control.capnp, Envelope).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "services/worker/batch_context.h"
#include "services/worker/place.h"

namespace lockstep::worker {

struct Envelope {
  struct Refused {
    Status why;
  };
  struct Shutdown {
    std::string why;
  };
  // A hello was heard, and others are waited for.
  struct Waiting {};
  struct OutOfReach {
    std::string why;
  };

  Epoch epoch;
  uint64_t sequence = 0;
  // A batch, whose body is the message's second frame; a welcome; ...
  std::variant<BatchContext, Place, Refused, Shutdown, Waiting, OutOfReach> content;
};

// kInvalidArgument, kInternal, kUnimplemented: it cannot be read, makes no sense, or is of a kind
// that this worker does not know.
StatusOr<Envelope> ReadEnvelope(const control::Message& message);

}  // namespace lockstep::worker
