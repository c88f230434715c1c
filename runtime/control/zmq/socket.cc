#include "runtime/control/zmq/socket.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "runtime/control/zmq/endpoint.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace lockstep::control {
namespace {

// Small frames are cheaper to copy than to share.
#ifndef __SANITIZE_THREAD__
constexpr size_t kCopyBelowBytes = 512;
#else
// ZeroMQ counts references where ThreadSanitizer cannot see it, so all frames are copied for it.
constexpr size_t kCopyBelowBytes = std::numeric_limits<size_t>::max();
#endif

// An address that does not answer is given up after this long, and the name is looked up anew: it
// may be the former one of a host, or a pod, that has another now. The system's own patience is
// minutes.
constexpr int kConnectMillis = 3000;
// A host that vanishes ends no connection. The kernel asks over one on which nothing is said
// whether its other end is still there, and closes it two minutes after the last word; and as long
// after the first one that the other end has not acknowledged, where something was said.
constexpr int kIdleSeconds = 60;
constexpr int kAskAgainSeconds = 10;
constexpr int kAskAtMost = 6;
constexpr int kUnacknowledgedMillis = 1000 * (kIdleSeconds + kAskAtMost * kAskAgainSeconds);

// ZeroMQ hands memory from the thread that sends to the one that receives. The distribution's
// library is not instrumented, so ThreadSanitizer is told of it here; otherwise these do nothing.
void HandOver([[maybe_unused]] const void* memory) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(const_cast<void*>(memory));
#endif
}
void TakeOver([[maybe_unused]] const void* memory) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(const_cast<void*>(memory));
#endif
}

// Messages of one peer that a listener holds and has not looked at.
constexpr int kMostNotTakenIn = 1000;

void DropFrame(void* /*data*/, void* frame) {
  TakeOver(frame);
  delete static_cast<Frame*>(frame);
}

}  // namespace

Status ZmqError(const std::string& what) {
  const int error = zmq_errno();
  const std::string text = what + ": " + zmq_strerror(error);
  switch (error) {
    case EADDRINUSE:
      return AlreadyExists(text);
    case EACCES:
    case EPERM:
      return PermissionDenied(text);
    case EINVAL:
    case EPROTONOSUPPORT:
    case ENOCOMPATPROTO:
    case ENODEV:
    case ENAMETOOLONG:
      return InvalidArgument(text, "; ", kExpectedEndpoint);
    case EADDRNOTAVAIL:
    case ENOENT:
      return NotFound(text);
    default:
      return Unavailable(text);
  }
}

void CopyInto(zmq_msg_t* part, const void* data, size_t size_bytes) {
  if (zmq_msg_init_size(part, size_bytes) != 0) throw std::bad_alloc();
  if (size_bytes > 0) std::memcpy(zmq_msg_data(part), data, size_bytes);
  HandOver(zmq_msg_data(part));
}

void FillPart(zmq_msg_t* part, const Frame& frame) {
  if (frame.size() < kCopyBelowBytes) {
    CopyInto(part, frame.data(), frame.size());
    return;
  }
  auto* shared = new Frame(frame);
  HandOver(shared);
  HandOver(frame.data());
  // ZeroMQ's signature takes a mutable pointer, but a sender's message is never written to.
  zmq_msg_init_data(part, const_cast<std::byte*>(frame.data()), frame.size(), DropFrame, shared);
}

StatusOr<Socket> Socket::Open(std::shared_ptr<ZmqContext> context, int type,
                              const ZmqOptions& options) {
  void* handle = zmq_socket(context->handle(), type);
  if (handle == nullptr) return ZmqError("cannot open a socket");
  Socket socket(std::move(context), handle);
  // Queues are bounded by credit (see runtime/client/link.h), not by dropping messages. A
  // listener leaves what it cannot take in at once to the network: its peers then wait.
  socket.Set(ZMQ_SNDHWM, options.max_unread);
  socket.Set(ZMQ_RCVHWM, type == ZMQ_ROUTER ? kMostNotTakenIn : options.max_not_taken);
  socket.Set(ZMQ_IPV6, 1);
  // The last words (a refusal, a shutdown) still go out after the socket is closed.
  socket.Set(ZMQ_LINGER, static_cast<int>(options.linger.count()));
  socket.Set(ZMQ_RECONNECT_IVL, 5);
  socket.Set(ZMQ_RECONNECT_IVL_MAX, 500);
  socket.Set(ZMQ_CONNECT_TIMEOUT, kConnectMillis);
  socket.Set(ZMQ_TCP_KEEPALIVE, 1);
  socket.Set(ZMQ_TCP_KEEPALIVE_IDLE, kIdleSeconds);
  socket.Set(ZMQ_TCP_KEEPALIVE_INTVL, kAskAgainSeconds);
  socket.Set(ZMQ_TCP_KEEPALIVE_CNT, kAskAtMost);
  socket.Set(ZMQ_TCP_MAXRT, kUnacknowledgedMillis);
  // "Maximise throughput", RFC 1349: Linux's queues that have priorities (pfifo_fast, prio) take it
  // for bulk. What it means to networks is theirs to say (it is DSCP 2, which most pass on as it
  // is).
  constexpr int kTosOfBulk = 0x08;
  if (options.low_priority) socket.Set(ZMQ_TOS, kTosOfBulk);
  const int64_t max_bytes = options.max_message_bytes;
  zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
  return socket;
}

Socket::Socket(std::shared_ptr<ZmqContext> context, void* handle)
    : context_(std::move(context)), handle_(handle) {}

Socket::Socket(Socket&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

Socket::~Socket() {
  if (handle_ != nullptr) zmq_close(handle_);
}

int Socket::wait_fd() const {
  int fd = -1;
  size_t size = sizeof fd;
  zmq_getsockopt(handle_, ZMQ_FD, &fd, &size);
  return fd;
}

bool Socket::HasInput() {
  int events = 0;
  size_t size = sizeof events;
  const bool has_input =
      zmq_getsockopt(handle_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
  drained_ = !has_input;
  return has_input;
}

Status Socket::SendPart(zmq_msg_t* part, bool more) {
  drained_ = false;
  while (zmq_msg_send(part, handle_, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) {
    if (zmq_errno() == EINTR) continue;
    const Status status = ZmqError("cannot send");
    zmq_msg_close(part);
    return status;
  }
  return OkStatus();
}

std::shared_ptr<ReceivedPart> Socket::ReceivePart() {
  auto part = std::make_shared<ReceivedPart>();
  while (zmq_msg_recv(&part->message, handle_, ZMQ_DONTWAIT) < 0) {
    if (zmq_errno() == EINTR) continue;
    drained_ = true;
    return nullptr;
  }
  drained_ = false;
  TakeOver(zmq_msg_data(&part->message));
  return part;
}

bool Socket::ReceiveFrames(std::shared_ptr<ReceivedPart> part, Message* message) {
  bool few = true;
  while (part != nullptr) {
    const bool more = More(*part);
    few = few && message->size() < kMaxFrames;
    if (few) {
      const void* data = zmq_msg_data(&part->message);
      const size_t size = zmq_msg_size(&part->message);
      message->push_back(Frame(std::move(part), data, size));
    }
    part = more ? ReceivePart() : nullptr;
  }
  return few;
}

namespace {

// How long a peer may take to prove who it is: a connection that never does is closed. What
// strangers can make a listener hold is what the network carries in this time.
constexpr int kHandshakeMillis = 5'000;

void SetBytes(Socket& socket, int option, const void* bytes, size_t size) {
  zmq_setsockopt(socket.handle(), option, bytes, size);
}

}  // namespace

bool IsForKeys(const std::string& endpoint) { return endpoint.rfind("tcp://", 0) == 0; }

void ListenWithKey(Socket& socket, const KeyPair& own, const std::string& domain) {
  socket.Set(ZMQ_CURVE_SERVER, 1);
  SetBytes(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.bytes().data(), kKeyBytes);
  SetBytes(socket, ZMQ_ZAP_DOMAIN, domain.data(), domain.size());
  socket.Set(ZMQ_HANDSHAKE_IVL, kHandshakeMillis);
}

void ConnectWithKey(Socket& socket, const KeyPair& own, const PublicKey& listener) {
  SetBytes(socket, ZMQ_CURVE_SERVERKEY, listener.bytes.data(), kKeyBytes);
  SetBytes(socket, ZMQ_CURVE_PUBLICKEY, own.public_key.bytes.data(), kKeyBytes);
  SetBytes(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.bytes().data(), kKeyBytes);
  socket.Set(ZMQ_HANDSHAKE_IVL, kHandshakeMillis);
}

}  // namespace lockstep::control
