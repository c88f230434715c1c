// Which keys are let in at the controller's endpoints, and what each may ask for by its role.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/control/keys/gate.h"
#include "schemas/session.capnp.h"
#include "services/controller/options.h"

namespace lockstep::controller {

// Null: none is asked for a key.
struct Gates {
  std::shared_ptr<control::Gate> clients;
  std::shared_ptr<control::Gate> workers;  // for commands and for heartbeats
};

// kInvalidArgument: a key without a list of the keys that may come in, or the other way round; the
// errors of control::ReadKeyFile() and control::AllowListFile::Open().
StatusOr<Gates> OpenGates(const ControllerOptions& options);

// OK if the sender's role allows the message. `sender` null: it needs no key, and may do all.
Status CheckRole(const control::Identity* sender, wire::ClientMessage::Which message);

}  // namespace lockstep::controller
