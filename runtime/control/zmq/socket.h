// A ZeroMQ socket with the options that all of ours share, and how frames go into it and come out.
// Private to this folder.
#pragma once

#include <zmq.h>

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/control/zmq/zmq_context.h"

namespace lockstep::control {

// What ZeroMQ has just reported by zmq_errno(), after "<what>: ".
Status ZmqError(const std::string& what);

// A ZeroMQ message that lives as long as the Frame made from it.
struct ReceivedPart {
  ReceivedPart() { zmq_msg_init(&message); }
  ~ReceivedPart() { zmq_msg_close(&message); }
  ReceivedPart(const ReceivedPart&) = delete;
  ReceivedPart& operator=(const ReceivedPart&) = delete;

  zmq_msg_t message;
};

// Makes `part` hold a copy of these bytes.
void CopyInto(zmq_msg_t* part, const void* data, size_t size_bytes);

// Makes `part` hold the bytes of `frame`: by copy, or by a reference that ZeroMQ drops when the
// bytes are on the wire. Copies of `part` (zmq_msg_copy) share that one reference.
void FillPart(zmq_msg_t* part, const Frame& frame);

// Threads: one at a time. Ownership: owns its handle, keeps its context alive.
class Socket {
 public:
  // `type` is ZMQ_DEALER or ZMQ_ROUTER.
  static StatusOr<Socket> Open(std::shared_ptr<ZmqContext> context, int type,
                               const ZmqOptions& options);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  void* handle() const { return handle_; }
  void Set(int option, int value) { zmq_setsockopt(handle_, option, &value, sizeof value); }
  // See Channel for these three.
  int wait_fd() const;
  bool HasInput();
  bool drained() const { return drained_; }

  // Takes `part` over, also after an error.
  Status SendPart(zmq_msg_t* part, bool more);

  // Takes one part; null if there is none.
  std::shared_ptr<ReceivedPart> ReceivePart();
  // Whether the message that `part` belongs to goes on after it.
  static bool More(const ReceivedPart& part) { return zmq_msg_more(&part.message) != 0; }
  // Appends `part` and the rest of the message that it belongs to. False if there are more than
  // kMaxFrames: they are taken from the socket, and dropped.
  bool ReceiveFrames(std::shared_ptr<ReceivedPart> part, Message* message);

 private:
  Socket(std::shared_ptr<ZmqContext> context, void* handle);

  std::shared_ptr<ZmqContext> context_;
  void* handle_;
  bool drained_ = false;
};

// CurveZMQ on our sockets (https://rfc.zeromq.org/spec/26/): both ends prove who they are, and
// no process between them can read or change what they say.

// Where keys are asked for: tcp. Others (ipc, inproc) the kernel, or the process, keeps apart.
bool IsForKeys(const std::string& endpoint);

// The socket shows `own` to the peers that connect from now on, and asks the ZAP domain about each.
void ListenWithKey(Socket& socket, const KeyPair& own, const std::string& domain);

// What is connected from now on shows `own`, and talks only to the owner of `listener`.
void ConnectWithKey(Socket& socket, const KeyPair& own, const PublicKey& listener);

}  // namespace lockstep::control
