// What the controller says to a worker: on its command socket (schemas/control.capnp, Envelope),
// and when a session has failed elsewhere (schemas/membership.capnp, Abort).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "services/worker/join/membership.h"

namespace lockstep::worker {

// How long a batch has been on its way. Durations, because the clocks of hosts differ.
struct BatchTimes {
  std::chrono::nanoseconds in_client{0};      // its first command, until it was sent
  std::chrono::nanoseconds in_controller{0};  // from its arrival there until it was sent on
  std::chrono::nanoseconds in_transit{-1};    // from there to here; negative: not known
};

// What a batch's envelope says of it.
struct BatchContext {
  SessionId session;
  Generation generation;
  uint64_t first_command = 0;
  RequestId request;
  BatchTimes times = {};
  std::chrono::nanoseconds sent{0};                  // by the controller's clock
  std::chrono::steady_clock::time_point taken = {};  // from the socket
};

struct AbortOrder {
  Generation generation;
  uint64_t from_command = 0;  // the first command that is not executed; 0: none is
  control::RemoteError cause;
};

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
  std::variant<BatchContext, Membership, Refused, Shutdown, Waiting, OutOfReach> content;
};

// kInvalidArgument, kInternal, kUnimplemented: it cannot be read, makes no sense, or is of a kind
// that this worker does not know.
StatusOr<Envelope> ReadEnvelope(const control::Message& message);

}  // namespace lockstep::worker
