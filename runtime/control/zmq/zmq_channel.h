// Channels over ZeroMQ: DEALER on the connecting side, ROUTER on the listening one, for inproc://,
// ipc:// and tcp:// endpoints.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/zmq_context.h"

namespace lockstep::control {

// Messages of more frames are nothing that we say to one another, and are dropped.
inline constexpr size_t kMaxFrames = 8;

struct ZmqOptions {
  // Larger frames from outside are dropped with their connection, before anything is allocated.
  int64_t max_message_bytes = int64_t{1} << 30;
  // Messages that wait for one peer that does not read; further ones to it are lost. 0: any number.
  int max_unread = 0;
  // Of a connection: messages that have come and wait to be taken; further ones wait at the other
  // end. 0: any number.
  int max_not_taken = 0;
  // How long what was sent last may still take to go out once the channel is closed.
  std::chrono::milliseconds linger{500};
  // Where network queues know priorities, others go first: for bulk data.
  bool low_priority = false;
  // Of a listener at a tcp endpoint: who may connect. Null: all that can, and that is only this
  // host.
  std::shared_ptr<Gate> gate{};
  // Of a connection to a tcp endpoint: the keys that it shows and expects. Null: none.
  CredentialSource credentials{};
  // Of a connection to a tcp endpoint: what is sent before the listener has let us in is kept, and
  // sent again if it does so at another attempt. False where it is sent again anyhow, and its
  // memory is only lent.
  bool keeps_unsent = true;
};

// Connects in the background: the listener may come later. kInvalidArgument for an endpoint that
// ZeroMQ does not understand; the errors of `credentials`.
StatusOr<std::unique_ptr<ClientChannel>> ZmqConnect(std::shared_ptr<ZmqContext> context,
                                                    const std::string& endpoint,
                                                    const ZmqOptions& options = {});

// Listens. A tcp endpoint's host is an address, a network, an interface or a name of this host, or
// * for all of its addresses. kInvalidArgument for a bad endpoint, kAlreadyExists if the address is
// in use, kPermissionDenied for a tcp address that is not loopback, unless there is a gate. The
// socket that a dead process left at an ipc:// path is replaced, a live one's never is (see
// ipc_claim.h).
StatusOr<std::unique_ptr<ServerChannel>> ZmqListen(std::shared_ptr<ZmqContext> context,
                                                   const std::string& endpoint,
                                                   const ZmqOptions& options = {});

}  // namespace lockstep::control
