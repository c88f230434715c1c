// What a client says of itself when it opens, attaches to or resumes a session.
#pragma once

#include <capnp/common.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/allow_list.h"
#include "schemas/membership.capnp.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// A client that wants a session.
struct Applicant {
  control::PeerName client;
  std::optional<control::Identity> sender;  // as its key has shown; none: it needs none
};

// kFailedPrecondition if the client and this controller have no protocol version in common.
Status CheckClientVersion(uint32_t oldest, uint32_t newest, const std::string& build);
// It is kept with the session, here and on every worker. kInvalidArgument: it is no public key.
Status CheckBulkKey(capnp::Text::Reader key);
// What is kept, logged and shown for as long as its session lives; long names are cut.
void SetClientProcess(SessionEntry& session, const std::string& name, wire::Host::Reader host,
                      int pid);

}  // namespace lockstep::controller
