// Errors as they cross the wire (schemas/errors.capnp).
#pragma once

#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "schemas/errors.capnp.h"

namespace lockstep::control {

// A failure with the place it happened at.
struct RemoteError {
  StatusCode code = StatusCode::kOk;
  Rank rank = -1;  // -1: the controller
  SessionId session;
  uint64_t command = 0;  // number within the session, from 1; 0: none
  std::string function;  // function or operation; empty if none
  std::string message;
  std::string stack;  // the remote stack; empty if none

  bool ok() const { return code == StatusCode::kOk; }
  // What the user reads: "rank 2, command 17, lockstep.fail: <message>" and the stack below it. The
  // parts travel along, for RemoteErrorIn().
  Status ToStatus() const;
};

// The error that `status`, or the one that it was annotated from, was made of; none if it was made
// otherwise, or of an error of which no place is known.
std::optional<RemoteError> RemoteErrorIn(const Status& status);

// An error of the controller itself, or one without a place.
RemoteError ErrorOf(const Status& status);

void WriteError(wire::Error::Builder builder, const RemoteError& error);
RemoteError ReadError(wire::Error::Reader reader);

}  // namespace lockstep::control
