#include "runtime/control/zmq/zmq_channel.h"

#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "runtime/control/zmq/ipc_claim.h"

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

constexpr char kExpectedEndpoint[] =
    "expected inproc://<name>, ipc://<path> (at most 107 bytes) or tcp://<host>:<port>";

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

// A ZeroMQ message that lives as long as the Frame made from it.
struct ReceivedPart {
  ReceivedPart() { zmq_msg_init(&message); }
  ~ReceivedPart() { zmq_msg_close(&message); }
  ReceivedPart(const ReceivedPart&) = delete;
  ReceivedPart& operator=(const ReceivedPart&) = delete;

  zmq_msg_t message;
};

void CopyInto(zmq_msg_t* part, const void* data, size_t size_bytes) {
  if (zmq_msg_init_size(part, size_bytes) != 0) throw std::bad_alloc();
  if (size_bytes > 0) std::memcpy(zmq_msg_data(part), data, size_bytes);
  HandOver(zmq_msg_data(part));
}

void DropFrame(void* /*data*/, void* frame) {
  TakeOver(frame);
  delete static_cast<Frame*>(frame);
}

// Makes `part` hold the bytes of `frame`: by copy, or by a reference that ZeroMQ drops when the
// bytes are on the wire. Copies of `part` (zmq_msg_copy) share that one reference.
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

// An RAII socket with the options that all of ours share.
class Socket {
 public:
  static StatusOr<Socket> Open(std::shared_ptr<ZmqContext> context, int type,
                               const ZmqOptions& options) {
    void* handle = zmq_socket(context->handle(), type);
    if (handle == nullptr) return ZmqError("cannot open a socket");
    Socket socket(std::move(context), handle);
    // Queues are bounded by credit (see runtime/client/flow_window.h), not by dropping messages.
    socket.Set(ZMQ_SNDHWM, options.max_unread);
    socket.Set(ZMQ_RCVHWM, 0);
    socket.Set(ZMQ_IPV6, 1);
    // The last words (a refusal, a shutdown) still go out after the socket is closed.
    socket.Set(ZMQ_LINGER, 500);
    socket.Set(ZMQ_RECONNECT_IVL, 5);
    socket.Set(ZMQ_RECONNECT_IVL_MAX, 500);
    const int64_t max_bytes = options.max_message_bytes;
    zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    return socket;
  }

  Socket(Socket&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (handle_ != nullptr) zmq_close(handle_);
  }

  void* handle() const { return handle_; }

  void Set(int option, int value) { zmq_setsockopt(handle_, option, &value, sizeof value); }

  int wait_fd() const {
    int fd = -1;
    size_t size = sizeof fd;
    zmq_getsockopt(handle_, ZMQ_FD, &fd, &size);
    return fd;
  }

  bool HasInput() {
    int events = 0;
    size_t size = sizeof events;
    const bool has_input =
        zmq_getsockopt(handle_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
    drained_ = !has_input;
    return has_input;
  }
  bool drained() const { return drained_; }

  Status SendPart(zmq_msg_t* part, bool more) {
    drained_ = false;
    while (zmq_msg_send(part, handle_, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0) {
      if (zmq_errno() == EINTR) continue;
      const Status status = ZmqError("cannot send");
      zmq_msg_close(part);
      return status;
    }
    return OkStatus();
  }

  // Takes one part; null if there is none.
  std::shared_ptr<ReceivedPart> ReceivePart() {
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

  // Appends the rest of the message that `part` belongs to.
  static bool More(const ReceivedPart& part) { return zmq_msg_more(&part.message) != 0; }
  static Frame FrameOf(std::shared_ptr<ReceivedPart> part) {
    const void* data = zmq_msg_data(&part->message);
    const size_t size = zmq_msg_size(&part->message);
    return Frame(std::move(part), data, size);
  }
  // False if there are more than kMaxFrames: they are taken from the socket, and dropped.
  bool ReceiveFrames(std::shared_ptr<ReceivedPart> part, Message* message) {
    bool few = true;
    while (part != nullptr) {
      const bool more = More(*part);
      few = few && message->size() < kMaxFrames;
      if (few) message->push_back(FrameOf(std::move(part)));
      part = more ? ReceivePart() : nullptr;
    }
    return few;
  }

 private:
  Socket(std::shared_ptr<ZmqContext> context, void* handle)
      : context_(std::move(context)), handle_(handle) {}

  std::shared_ptr<ZmqContext> context_;
  void* handle_;
  bool drained_ = false;
};

class DealerChannel final : public ClientChannel {
 public:
  explicit DealerChannel(Socket socket) : socket_(std::move(socket)), fd_(socket_.wait_fd()) {}

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }

  Status Send(const Message& message) override {
    for (size_t i = 0; i < message.size(); ++i) {
      zmq_msg_t part;
      FillPart(&part, message[i]);
      LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, i + 1 < message.size()));
    }
    return OkStatus();
  }

  bool Receive(Message* message) override {
    while (std::shared_ptr<ReceivedPart> part = socket_.ReceivePart()) {
      message->clear();
      if (socket_.ReceiveFrames(std::move(part), message)) return true;
    }
    return false;
  }

 private:
  Socket socket_;
  const int fd_;
};

class RouterChannel final : public ServerChannel {
 public:
  RouterChannel(Socket socket, std::string endpoint, std::vector<IpcClaim> claims)
      : claims_(std::move(claims)),
        socket_(std::move(socket)),
        fd_(socket_.wait_fd()),
        endpoint_(std::move(endpoint)) {}

  bool HasInput() override { return socket_.HasInput(); }
  int wait_fd() const override { return fd_; }
  bool drained() const override { return socket_.drained(); }
  const std::string& endpoint() const override { return endpoint_; }

  Status Send(absl::Span<const PeerName> peers, const Message& message) override {
    absl::InlinedVector<zmq_msg_t, 2> originals(message.size());
    for (size_t i = 0; i < message.size(); ++i) FillPart(&originals[i], message[i]);
    Status status;
    for (const PeerName& peer : peers) {
      status.Update(SendTo(peer, originals));
    }
    for (zmq_msg_t& original : originals) zmq_msg_close(&original);
    return status;
  }

  bool Receive(PeerName* from, Message* message) override {
    while (const std::shared_ptr<ReceivedPart> part = socket_.ReceivePart()) {
      message->clear();
      from->assign(static_cast<const char*>(zmq_msg_data(&part->message)),
                   zmq_msg_size(&part->message));
      if (!Socket::More(*part) || socket_.ReceiveFrames(socket_.ReceivePart(), message))
        return true;
    }
    return false;
  }

 private:
  Status SendTo(const PeerName& peer, absl::InlinedVector<zmq_msg_t, 2>& originals) {
    zmq_msg_t part;
    CopyInto(&part, peer.data(), peer.size());
    LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, !originals.empty()));
    for (size_t i = 0; i < originals.size(); ++i) {
      zmq_msg_init(&part);
      zmq_msg_copy(&part, &originals[i]);
      LOCKSTEP_RETURN_IF_ERROR(socket_.SendPart(&part, i + 1 < originals.size()));
    }
    return OkStatus();
  }

  const std::vector<IpcClaim> claims_;  // let go of when the socket is closed
  Socket socket_;
  const int fd_;
  const std::string endpoint_;
};

// A name of our own choice, so that a peer keeps it when its connection is made anew. ZeroMQ
// reserves names that begin with a zero byte.
using RoutingId = std::array<char, 17>;
RoutingId NewRoutingId() {
  std::random_device random;
  RoutingId id;
  id[0] = 'L';
  for (size_t i = 1; i < id.size(); ++i) id[i] = static_cast<char>(random());
  return id;
}

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// Without keys, only this host may reach us. ZeroMQ knows more transports than ours, and nobody has
// thought about who can reach those.
Status CheckMayListen(const std::string& endpoint) {
  if (StartsWith(endpoint, "inproc://") || StartsWith(endpoint, "ipc://")) return OkStatus();
  constexpr char kTcp[] = "tcp://";
  if (!StartsWith(endpoint, kTcp)) {
    return InvalidArgument("cannot listen on \"", endpoint, "\"; ", kExpectedEndpoint);
  }
  const std::string address = endpoint.substr(sizeof kTcp - 1);
  for (const char* loopback : {"127.", "localhost:", "[::1]:", "lo:"}) {
    if (StartsWith(address, loopback)) return OkStatus();
  }
  return PermissionDenied("will not listen on ", endpoint,
                          ": connections are not authenticated, so only loopback (127.0.0.0/8, "
                          "[::1]), ipc:// and inproc:// are allowed");
}

StatusOr<IpcClaim> Bind(const Socket& socket, const std::string& endpoint) {
  LOCKSTEP_RETURN_IF_ERROR(CheckMayListen(endpoint));
  LOCKSTEP_ASSIGN_OR_RETURN(IpcClaim claim, IpcClaim::Take(endpoint));
  if (zmq_bind(socket.handle(), endpoint.c_str()) != 0) {
    return ZmqError("cannot listen on \"" + endpoint + "\"");
  }
  claim.Bound();
  return claim;
}

// ZeroMQ tells an IPv4 address as an IPv6 one, "[::ffff:127.0.0.1]": the same place, but nothing
// that people have written into their configuration.
std::string WithPlainIpv4(std::string endpoint) {
  constexpr char kMapped[] = "tcp://[::ffff:";
  const size_t bracket = endpoint.find(']');
  if (!StartsWith(endpoint, kMapped) || bracket == std::string::npos) return endpoint;
  endpoint.erase(bracket, 1);
  return endpoint.replace(0, sizeof kMapped - 1, "tcp://");
}

}  // namespace

ZmqContext::ZmqContext() : handle_(zmq_ctx_new()) {}

ZmqContext::~ZmqContext() { zmq_ctx_term(handle_); }

StatusOr<std::unique_ptr<ClientChannel>> ZmqConnect(std::shared_ptr<ZmqContext> context,
                                                    const std::string& endpoint,
                                                    const ZmqOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_DEALER, options));
  const RoutingId id = NewRoutingId();
  zmq_setsockopt(socket.handle(), ZMQ_ROUTING_ID, id.data(), id.size());
  if (zmq_connect(socket.handle(), endpoint.c_str()) != 0) {
    return ZmqError("cannot connect to \"" + endpoint + "\"");
  }
  return std::make_unique<DealerChannel>(std::move(socket));
}

StatusOr<std::unique_ptr<ServerChannel>> ZmqListen(std::shared_ptr<ZmqContext> context,
                                                   const std::string& endpoint,
                                                   const ZmqOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Socket socket, Socket::Open(std::move(context), ZMQ_ROUTER, options));
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);
  std::vector<IpcClaim> claims;
  LOCKSTEP_ASSIGN_OR_RETURN(claims.emplace_back(), Bind(socket, endpoint));
  char resolved[512];
  size_t size = sizeof resolved;
  if (zmq_getsockopt(socket.handle(), ZMQ_LAST_ENDPOINT, resolved, &size) != 0) {
    return ZmqError("cannot ask for the address of \"" + endpoint + "\"");
  }
  if (!options.also_at.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(claims.emplace_back(), Bind(socket, options.also_at));
  }
  return std::make_unique<RouterChannel>(std::move(socket), WithPlainIpv4(resolved),
                                         std::move(claims));
}

}  // namespace lockstep::control
