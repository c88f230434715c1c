#include "runtime/client/endpoint_check.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "runtime/control/local_address.h"

namespace lockstep::client {
namespace {

constexpr char kIpc[] = "ipc://";

Status CheckSocket(const std::string& path) {
  const auto no_answer = [&](const auto&... why) {
    return Unavailable("no controller answers at ", kIpc, path, ": ", why...);
  };
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR;
    if (!is_missing) return no_answer("the socket cannot be reached: ", std::strerror(errno));
    return no_answer("there is no socket ", path, "; is it running?");
  }
  if (!S_ISSOCK(facts.st_mode)) return no_answer(path, " is no socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return OkStatus();
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return OkStatus();
  const absl::Cleanup close_it = [fd] { close(fd); };
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED) {
    return OkStatus();
  }
  return no_answer("no process listens at the socket ", path, "; the one that made it has ended");
}

// Whether `fd` has `events` in time.
bool Comes(int fd, short events, std::chrono::milliseconds patience) {
  pollfd set{fd, events, 0};
  return poll(&set, 1, static_cast<int>(patience.count())) == 1;
}

// Connects to `address`, and sees whether the listener answers a request of HTTP. A listener of
// ZeroMQ begins by itself.
bool SpeaksHttp(const addrinfo& address, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kBegins{300};
  constexpr std::string_view kRequest = "HEAD / HTTP/1.0\r\n\r\n";
  constexpr std::string_view kAnswer = "HTTP/";
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_it = [fd] { close(fd); };
  if (connect(fd, address.ai_addr, address.ai_addrlen) != 0 &&
      (errno != EINPROGRESS || !Comes(fd, POLLOUT, patience))) {
    return false;
  }
  if (!Comes(fd, POLLIN, kBegins) && send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
                                         static_cast<ssize_t>(kRequest.size())) {
    return false;
  }
  std::array<char, kAnswer.size()> begin{};
  return Comes(fd, POLLIN, patience) &&
         recv(fd, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kAnswer;
}

Status CheckTcp(const std::string& endpoint, const std::string& host,
                std::chrono::milliseconds patience) {
  const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return InvalidArgument("the host name \"", host,
                           "\" cannot be resolved: ", gai_strerror(error));
  }
  const absl::Cleanup free_them = [found] { freeaddrinfo(found); };
  if (!SpeaksHttp(*found, patience)) return OkStatus();
  return InvalidArgument("an HTTP server answers at ", endpoint,
                         ", not a controller's client port; is it where metrics are read?");
}

}  // namespace

Status CheckEndpoint(const std::string& endpoint, std::chrono::milliseconds patience) {
  if (endpoint.starts_with(kIpc)) {
    const std::string path = endpoint.substr(sizeof kIpc - 1);
    // An abstract name, or one that ZeroMQ chooses, has no file.
    return path.empty() || path[0] == '@' || path[0] == '*' ? OkStatus() : CheckSocket(path);
  }
  const std::string host = control::HostOf(endpoint);
  return host.empty() ? OkStatus() : CheckTcp(endpoint, host, patience);
}

}  // namespace lockstep::client
