// What became of a socket's attempts to connect: ZeroMQ itself does not tell.
// Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/control/zmq/socket.h"
#include "runtime/control/zmq/zmq_context.h"

namespace lockstep::control {

enum class Handshake {
  kSucceeded,
  kTurnedAway,     // the listener does not want our key; ZeroMQ does not try again
  kOtherListener,  // it does not have the key that we expect; ZeroMQ tries again
  kBrokenOff,      // the connection ended meanwhile, as it does where the listener's key is another
  kMismatch,       // one of the ends uses keys, and the other does not; ZeroMQ tries again
  kEnded,          // a connection has ended; ZeroMQ tries again
};

// Threads: one at a time. Ends before the socket does.
class Handshakes {
 public:
  // From now on. The socket is borrowed. What is not asked for is kept: a listener that turns every
  // attempt away costs some bytes each half second.
  static StatusOr<Handshakes> Watch(const std::shared_ptr<ZmqContext>& context, Socket& socket);
  Handshakes(Handshakes&& other) noexcept;
  Handshakes& operator=(Handshakes&&) = delete;
  ~Handshakes();

  // As Channel::wait_fd().
  int wait_fd() const;
  std::optional<Handshake> Next();

 private:
  Handshakes(std::shared_ptr<ZmqContext> context, void* watched, void* events)
      : context_(std::move(context)), watched_(watched), events_(events) {}

  std::shared_ptr<ZmqContext> context_;
  void* watched_;
  void* events_;
};

}  // namespace lockstep::control
