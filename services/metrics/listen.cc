#include "services/metrics/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace lockstep::metrics {
namespace {

constexpr std::string_view kScheme = "http://";
// Connections that have come and that nobody has accepted yet.
constexpr int kBacklog = 128;

// The number after the last colon; 0 for *. kInvalidArgument if there is none.
StatusOr<int> PortOf(const std::string& endpoint) {
  const std::string text = endpoint.substr(endpoint.rfind(':') + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (text == "*" || (is_number && port >= 0 && port <= 65535)) return port;
  return InvalidArgument("\"", endpoint, "\" names no port for metrics; allowed: ", kScheme,
                         "127.0.0.1:PORT");
}

// One that listens at `address`; else closed, and errno says why.
Socket ListenAt(const addrinfo& address) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
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
  LOCKSTEP_ASSIGN_OR_RETURN(const int wanted, PortOf(endpoint));
  const size_t host_bytes = endpoint.rfind(':') - std::min(kScheme.size(), endpoint.rfind(':'));
  if (endpoint.rfind(kScheme, 0) != 0 || host_bytes == 0) {
    return InvalidArgument("\"", endpoint, "\" is no address for metrics; allowed: ", kScheme,
                           "127.0.0.1:PORT");
  }
  const std::string host = endpoint.substr(kScheme.size(), host_bytes);
  // A resolver wants an IPv6 address without the brackets that URLs put around it.
  const bool bracketed = host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(name.c_str(), std::to_string(wanted).c_str(), &hints, &found);
  if (unknown != 0) {
    return Unavailable("metrics cannot be served at ", endpoint, ": ", gai_strerror(unknown));
  }
  const absl::Cleanup free_it = [found] { freeaddrinfo(found); };
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Socket socket = ListenAt(*address);
    if (!socket.is_open()) continue;
    std::string bound(kScheme);
    bound.append(host).append(":").append(std::to_string(PortOf(socket)));
    return Listener{std::move(socket), std::move(bound)};
  }
  return Unavailable("metrics cannot be served at ", endpoint, ": ", std::strerror(errno));
}

}  // namespace lockstep::metrics
