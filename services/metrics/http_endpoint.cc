#include "services/metrics/http_endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace lockstep::metrics {
namespace {

// Connections that have come and are not accepted yet.
constexpr int kBacklog = 128;

struct FreeAddresses {
  void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

struct Endpoint {
  std::string host;  // as it was written, with brackets
  int port = 0;      // 0: any
};

StatusOr<Endpoint> Parse(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  const bool has_host =
      endpoint.rfind(kScheme, 0) == 0 && colon != std::string::npos && colon > kScheme.size();
  const std::string text = has_host ? endpoint.substr(colon + 1) : "";
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (text != "*" && (!is_number || port < 0 || port > 65535)) {
    return InvalidArgument("\"", endpoint, "\" is no address for metrics; allowed: ", kScheme,
                           "127.0.0.1:PORT");
  }
  return Endpoint{endpoint.substr(kScheme.size(), colon - kScheme.size()), port};
}

StatusOr<Addresses> Resolve(const std::string& host, int port, int flags) {
  // A resolver wants an IPv6 address without the brackets that URLs put around it.
  const bool bracketed = host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) return Unavailable(gai_strerror(unknown));
  return Addresses(found);
}

Socket SocketFor(const addrinfo& address) {
  return Socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
}

// One that listens at `address`; else closed, and errno says why.
Socket ListenAt(const addrinfo& address) {
  Socket socket = SocketFor(address);
  if (!socket.is_open()) return socket;
  const int yes = 1;
  const int no = 0;
  // Not SO_REUSEPORT, which would let two services share a port without a word.
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.ai_family == AF_INET6) {
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (bind(socket.fd(), address.ai_addr, address.ai_addrlen) == 0 &&
      listen(socket.fd(), kBacklog) == 0) {
    return socket;
  }
  const int error = errno;
  socket = Socket();
  errno = error;
  return socket;
}

// As ListenAt().
Socket ConnectAt(const addrinfo& address, const Deadline& deadline) {
  Socket socket = SocketFor(address);
  if (!socket.is_open()) return socket;
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  int error = errno;
  if (error == EINPROGRESS) {
    const Status connected = Await(socket, POLLOUT, deadline);
    socklen_t size = sizeof error;
    error = ETIMEDOUT;
    if (connected.ok()) getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return socket;
  }
  socket = Socket();
  errno = error;
  return socket;
}

int PortOf(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

StatusOr<Listener> Listen(const std::string& endpoint) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Endpoint wanted, Parse(endpoint));
  const StatusOr<Addresses> found = Resolve(wanted.host, wanted.port, AI_PASSIVE);
  if (!found.ok()) {
    return Unavailable("metrics cannot be served at ", endpoint, ": ", Message(found.status()));
  }
  for (const addrinfo* address = found->get(); address != nullptr; address = address->ai_next) {
    Socket socket = ListenAt(*address);
    if (!socket.is_open()) continue;
    std::string bound(kScheme);
    bound.append(wanted.host).append(":").append(std::to_string(PortOf(socket)));
    return Listener{std::move(socket), std::move(bound)};
  }
  return Unavailable("metrics cannot be served at ", endpoint, ": ", std::strerror(errno));
}

Status Await(const Socket& socket, short event, const Deadline& deadline) {
  pollfd watched{socket.fd(), event, 0};
  for (;;) {
    const int ready = poll(&watched, 1, deadline.RemainingMillis());
    if (ready > 0) return OkStatus();
    if (ready == 0) return Unavailable("it took too long");
    if (errno != EINTR) return Unavailable(std::strerror(errno));
  }
}

StatusOr<Socket> ConnectTo(const std::string& endpoint, const Deadline& deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Endpoint wanted, Parse(endpoint));
  if (wanted.port == 0) return InvalidArgument("\"", endpoint, "\" names no port to ask at");
  LOCKSTEP_ASSIGN_OR_RETURN(const Addresses found, Resolve(wanted.host, wanted.port, 0));
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    // One that swallows all packets leaves the others half of the time.
    const Deadline half = Deadline::After(deadline.Remaining() / 2);
    Socket socket = ConnectAt(*address, address->ai_next == nullptr ? deadline : half);
    if (socket.is_open()) return socket;
  }
  return Unavailable(std::strerror(errno));
}

}  // namespace lockstep::metrics
