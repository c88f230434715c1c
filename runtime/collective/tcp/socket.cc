#include "runtime/collective/tcp/socket.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace lockstep::collective::tcp {
namespace {

// Ranks that connect at the same time; more wait in the network.
constexpr int kBacklog = 1024;
// In seconds: of a connection on which nothing comes, how soon the other end is asked whether it is
// there, how often, and how often in vain before it has vanished. Not TCP_USER_TIMEOUT, which ends
// connections also to those that are there and do not read.
constexpr int kKeepAlive[][2] = {{TCP_KEEPIDLE, 30}, {TCP_KEEPINTVL, 10}, {TCP_KEEPCNT, 9}};

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

StatusOr<Addresses> LookUp(const std::string& address, const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), port.c_str(), &hints, &found);
  if (error != 0)
    return Unavailable(error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  return Addresses(found);
}

std::string OwnName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

bool Place::IsLoopback() const {
  in_addr v4 = {};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6 = {};
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<Socket> Socket::Listen(const std::string& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Addresses found,
                            LookUp(address.empty() ? OwnName() : address, "0", AI_NUMERICSERV));
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    Socket listener(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (listener.is_open() && bind(listener.fd(), one->ai_addr, one->ai_addrlen) == 0 &&
        listen(listener.fd(), kBacklog) == 0) {
      return listener;
    }
    error = errno;
  }
  return Unavailable(std::strerror(error));
}

StatusOr<Place> Socket::place() const {
  sockaddr_storage storage = {};
  auto* const own = reinterpret_cast<sockaddr*>(&storage);
  socklen_t size = sizeof storage;
  char address[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  if (getsockname(fd_, own, &size) != 0) return Unavailable(std::strerror(errno));
  const int error = getnameinfo(own, size, address, sizeof address, port, sizeof port,
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return Unavailable(gai_strerror(error));
  if (std::strcmp(address, "0.0.0.0") == 0 || std::strcmp(address, "::") == 0) {
    return Unavailable(address, " is no address that others can connect to");
  }
  return Place{address, static_cast<uint16_t>(std::atoi(port))};
}

Socket Socket::Accept() const {
  Socket accepted(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.is_open()) accepted.Prepare();
  return accepted;
}

StatusOr<Socket> Socket::Connect(const Place& place) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Addresses found, LookUp(place.address, std::to_string(place.port),
                                                          AI_NUMERICHOST | AI_NUMERICSERV));
  Socket connection(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) return Unavailable(std::strerror(errno));
  connection.Prepare();
  if (connect(connection.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return Unavailable(std::strerror(errno));
  }
  return connection;
}

int Socket::ConnectError() const {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

bool Socket::HasUnsent() const {
  int unsent_bytes = 0;
  return ioctl(fd_, SIOCOUTQNSD, &unsent_bytes) == 0 && unsent_bytes > 0;
}

void Socket::Prepare() const {
  const int on = 1;
  (void)setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  for (const auto& [option, value] : kKeepAlive) {
    (void)setsockopt(fd_, IPPROTO_TCP, option, &value, sizeof value);
  }
}

}  // namespace lockstep::collective::tcp
