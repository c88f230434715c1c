// Channels carry messages between processes (or threads) without knowing what they mean.
//
// The controller listens with a ServerChannel; workers and clients connect with a ClientChannel.
// Messages between two peers arrive whole and in order, or not at all. Nothing here blocks: a
// thread that wants to wait for several things uses an InputWaiter (input_waiter.h).
#pragma once

#include <string>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/control/frame.h"
#include "runtime/control/keys/allow_list.h"

namespace lockstep::control {

// Threads: one thread at a time uses a channel; handing it on needs a lock or another fence.
class Channel {
 public:
  virtual ~Channel() = default;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // True if a message has come, though Receive may yet drop it for being no good.
  virtual bool HasInput() = 0;

  // A descriptor that becomes readable when input may have come. It is edge-like: sleep on it only
  // while drained(), and ask HasInput() or Receive() once it is readable.
  virtual int wait_fd() const = 0;

  // True if no input can have come without making wait_fd() readable: HasInput() or Receive() has
  // found nothing, and nothing was sent since (sending may take the edge away).
  virtual bool drained() const = 0;
};

class ClientChannel : public Channel {
 public:
  // Queues `message`. kUnavailable if the channel is closed.
  virtual Status Send(const Message& message) = 0;
  // Takes the next message; false if there is none.
  virtual bool Receive(Message* message) = 0;
  // What is known to be wrong with the connection; OK: nothing is. kPermissionDenied: the listener
  // does not let us in; kUnavailable: somebody else listens there than was expected.
  virtual Status trouble() const { return OkStatus(); }
};

// A peer of a ServerChannel: opaque bytes, unique among those connected.
using PeerName = std::string;

class ServerChannel : public Channel {
 public:
  // Where peers connect to, with the real port if any free one was asked for.
  virtual const std::string& endpoint() const = 0;
  // Queues `message` to every one of `peers`, sharing the frames. A peer that is gone loses it.
  virtual Status Send(absl::Span<const PeerName> peers, const Message& message) = 0;
  virtual bool Receive(PeerName* from, Message* message) = 0;
  // Who has sent what Receive() gave last, as his key shows; null: nobody is asked for a key here.
  // Borrowed until the next Receive().
  virtual const Identity* sender() const { return nullptr; }
};

}  // namespace lockstep::control
