#include "runtime/client/endpoint_check.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

Status CheckName(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return OkStatus();
  }
  return InvalidArgument("the host name \"", host, "\" cannot be resolved: ", gai_strerror(error));
}

}  // namespace

Status CheckEndpoint(const std::string& endpoint) {
  if (endpoint.starts_with(kIpc)) {
    const std::string path = endpoint.substr(sizeof kIpc - 1);
    // An abstract name, or one that ZeroMQ chooses, has no file.
    return path.empty() || path[0] == '@' || path[0] == '*' ? OkStatus() : CheckSocket(path);
  }
  const std::string host = control::HostOf(endpoint);
  return host.empty() ? OkStatus() : CheckName(host);
}

}  // namespace lockstep::client
