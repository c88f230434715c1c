#include "runtime/control/shm/ring_link.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/random.h"

namespace lockstep::control {
namespace {

constexpr size_t kMostLinkBytes = 256;
constexpr size_t kMostLinkDescriptors = 4;
constexpr int kLinkBacklog = 4096;
constexpr int kLinkFlags = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kNameBytes = 16;
constexpr size_t kSpareDescriptors = 2;

// Space for descriptors beside a message, aligned as the kernel wants it.
union ControlSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * kMostLinkDescriptors)];
};

// An abstract name: a zero byte, then the address.
struct AbstractName {
  sockaddr_un name{};
  socklen_t size = 0;

  explicit AbstractName(const std::string& address) {
    name.sun_family = AF_UNIX;
    const size_t count = std::min(address.size(), sizeof name.sun_path - 1);
    std::memcpy(name.sun_path + 1, address.data(), count);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Status LinkError(const char* what) { return Unavailable(what, ": ", std::strerror(errno)); }

}  // namespace

StatusOr<RingLink> RingLink::Check(Descriptor socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return LinkError("cannot ask whose the other end of a link is");
  }
  if (peer.uid != geteuid()) {
    return PermissionDenied("the other end of a link is user ", peer.uid, "'s, not user ",
                            geteuid(), "'s");
  }
  return RingLink(std::move(socket), peer.pid);
}

StatusOr<RingLink> RingLink::Connect(const std::string& address) {
  Descriptor socket(::socket(AF_UNIX, kLinkFlags, 0));
  const AbstractName name(address);
  if (!socket.is_open() || connect(socket.get(), name.get(), name.size) != 0) {
    return LinkError("the controller's memory cannot be asked for");
  }
  return Check(std::move(socket));
}

Status RingLink::Send(std::string_view bytes, absl::Span<const int> descriptors) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  ControlSpace space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t size = descriptors.size() * sizeof(int);
    message.msg_control = space.bytes;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  // Flags of this call, which the other end cannot change.
  if (sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return OkStatus();
  return LinkError("a link cannot be written to");
}

RingLink::Input RingLink::Receive(std::string* bytes, std::vector<Descriptor>* descriptors) {
  std::array<char, kMostLinkBytes> buffer;
  iovec part = {buffer.data(), buffer.size()};
  ControlSpace space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // Without room for them the kernel closes descriptors that come.
  if (descriptors != nullptr) {
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof space.bytes;
  }
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Input::kNothing : Input::kClosed;
  if (descriptors != nullptr) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        descriptors->emplace_back(fd);
      }
    }
  }
  // We send nothing that is empty.
  if (got == 0) return Input::kClosed;
  bytes->assign(buffer.data(), static_cast<size_t>(got));
  return Input::kMessage;
}

void RingLink::Wake() {
  // Full: wake-ups wait there already. Closed: that is found at the next look.
  [[maybe_unused]] const ssize_t sent = send(socket_.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool RingLink::TakeWakes() {
  // One that sends more than we take at a time makes us come back.
  constexpr int kMostAtATime = 16;
  char byte = 0;
  for (int i = 0; i < kMostAtATime; ++i) {
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
  }
  return true;
}

StatusOr<RingListener> RingListener::Create() {
  Descriptor socket(::socket(AF_UNIX, kLinkFlags, 0));
  std::string address = "lockstep-" + RandomHex(kNameBytes);
  const AbstractName name(address);
  if (!socket.is_open() || bind(socket.get(), name.get(), name.size) != 0 ||
      listen(socket.get(), kLinkBacklog) != 0) {
    return LinkError("cannot listen for workers that share this host's memory");
  }
  return RingListener(std::move(socket), std::move(address));
}

RingListener::RingListener(Descriptor socket, std::string address)
    : socket_(std::move(socket)),
      address_(std::move(address)),
      spare_(std::make_unique<DescriptorReserve>(kSpareDescriptors)) {}

std::vector<RingLink> RingListener::Accept() {
  constexpr int kMostAtATime = 64;
  std::vector<RingLink> links;
  for (int i = 0; i < kMostAtATime; ++i) {
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      StatusOr<RingLink> link = RingLink::Check(std::move(socket));
      if (link.ok()) links.push_back(std::move(*link));
    } else if (DescriptorReserve::IsExhausted(errno)) {
      spare_->Release();
      Descriptor(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)).Close();
      spare_->Refill();
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  return links;
}

}  // namespace lockstep::control
