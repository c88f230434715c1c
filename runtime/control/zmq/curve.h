// CurveZMQ on our sockets (https://rfc.zeromq.org/spec/26/): both ends prove who they are, and
// nobody between them can read or change what they say.
// Private to this folder.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/socket.h"

namespace lockstep::control {

// Where keys are asked for: tcp. Others (ipc, inproc) the kernel, or the process, keeps apart.
bool IsForKeys(const std::string& endpoint);

// The socket shows `own` to whoever connects from now on, and asks the ZAP domain about him.
void ListenWithKey(Socket& socket, const KeyPair& own, const std::string& domain);

// What is connected from now on shows `own`, and talks to nobody but the owner of `listener`.
void ConnectWithKey(Socket& socket, const KeyPair& own, const PublicKey& listener);

}  // namespace lockstep::control
