// What functions print, on its way from the workers to the client. Lines are not read here.
#pragma once

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class OutputRelay {
 public:
  OutputRelay(const Tools& tools, SessionTable& sessions, ClientMessenger& messenger)
      : tools_(tools), sessions_(sessions), messenger_(messenger) {}

  // Sends on what `rank` has printed, or counts it where the client is too slow for it.
  Status HandleOutput(Rank rank, wire::Output::Reader output, const control::Message& message);
  // The client has dealt with output.
  Status HandleTaken(const control::PeerName& client, wire::OutputTaken::Reader taken);

  const Tools& tools_;
  SessionTable& sessions_;
  ClientMessenger& messenger_;
};

}  // namespace lockstep::controller
