#include "runtime/control/zmq/handshakes.h"

#include <zmq.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

namespace lockstep::control {
namespace {

constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                        ZMQ_EVENT_DISCONNECTED;

// Of an event's first frame (zmq_socket_monitor(3)): 16 bits of number, 32 bits of value.
struct Event {
  uint16_t number = 0;
  uint32_t value = 0;
};

Event EventOf(zmq_msg_t* frame) {
  Event event;
  if (zmq_msg_size(frame) != sizeof event.number + sizeof event.value) return event;
  const char* const data = static_cast<const char*>(zmq_msg_data(frame));
  std::memcpy(&event.number, data, sizeof event.number);
  std::memcpy(&event.value, data + sizeof event.number, sizeof event.value);
  return event;
}

std::optional<Handshake> Meaning(const Event& event) {
  switch (event.number) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return Handshake::kSucceeded;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return Handshake::kTurnedAway;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? Handshake::kMismatch
                                                                       : Handshake::kOtherListener;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return Handshake::kBrokenOff;
    case ZMQ_EVENT_DISCONNECTED:
      return Handshake::kEnded;
    default:
      return std::nullopt;
  }
}

}  // namespace

StatusOr<Handshakes> Handshakes::Watch(const std::shared_ptr<ZmqContext>& context, Socket& socket) {
  static std::atomic<uint64_t> count{0};
  const std::string endpoint = "inproc://lockstep-handshakes-" + std::to_string(++count);
  if (zmq_socket_monitor(socket.handle(), endpoint.c_str(), kEvents) != 0) {
    return ZmqError("cannot watch connections");
  }
  void* const events = zmq_socket(context->handle(), ZMQ_PAIR);
  if (events == nullptr) return ZmqError("cannot watch connections");
  Handshakes handshakes(context, socket.handle(), events);
  const int none = 0;
  zmq_setsockopt(events, ZMQ_LINGER, &none, sizeof none);
  // Else a caller that does not read events would stop ZeroMQ's own thread, which waits for room.
  zmq_setsockopt(events, ZMQ_RCVHWM, &none, sizeof none);
  if (zmq_connect(events, endpoint.c_str()) != 0) return ZmqError("cannot watch connections");
  return handshakes;
}

Handshakes::Handshakes(Handshakes&& other) noexcept
    : context_(std::move(other.context_)),
      watched_(std::exchange(other.watched_, nullptr)),
      events_(std::exchange(other.events_, nullptr)) {}

Handshakes::~Handshakes() {
  if (events_ == nullptr) return;
  zmq_socket_monitor(watched_, nullptr, 0);
  zmq_close(events_);
}

int Handshakes::wait_fd() const {
  int fd = -1;
  size_t size = sizeof fd;
  zmq_getsockopt(events_, ZMQ_FD, &fd, &size);
  return fd;
}

std::optional<Handshake> Handshakes::Next() {
  while (true) {
    ReceivedPart first;
    if (zmq_msg_recv(&first.message, events_, ZMQ_DONTWAIT) < 0) return std::nullopt;
    const Event event = EventOf(&first.message);
    // The address that it is about.
    for (bool more = Socket::More(first); more;) {
      ReceivedPart rest;
      if (zmq_msg_recv(&rest.message, events_, ZMQ_DONTWAIT) < 0) break;
      more = Socket::More(rest);
    }
    if (const std::optional<Handshake> meaning = Meaning(event)) return meaning;
  }
}

}  // namespace lockstep::control
