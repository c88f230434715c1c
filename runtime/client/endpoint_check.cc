#include "runtime/client/endpoint_check.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "runtime/control/local_address.h"
#include "runtime/control/tcp_attempt.h"

namespace lockstep::client {
namespace {

constexpr char kIpc[] = "ipc://";
constexpr char kTcp[] = "tcp://";

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

// How long the steps of a check may take.
struct Limits {
  Deadline deadline;
  int cancel_fd;
  std::chrono::milliseconds patience;
};

enum class Event { kCame, kLate, kCancelled };

// Waits for it until then, or until the check's deadline.
Event Await(pollfd wait, Deadline until, const Limits& limits) {
  pollfd set[] = {wait, {limits.cancel_fd, POLLIN, 0}};
  while (true) {
    const int count = poll(set, 2, until.Earlier(limits.deadline).RemainingMillis());
    if (count < 0 && errno == EINTR) continue;
    if (set[1].revents != 0 && count > 0) return Event::kCancelled;
    return count > 0 ? Event::kCame : Event::kLate;
  }
}

Status Cancelled() { return MakeStatus(StatusCode::kCancelled, "the wait was cancelled"); }

// Whether the listener answers a request of HTTP. One of ZeroMQ begins by itself.
StatusOr<bool> SpeaksHttp(int fd, const Limits& limits) {
  constexpr std::chrono::milliseconds kBegins{300};
  constexpr std::string_view kRequest = "HEAD / HTTP/1.0\r\n\r\n";
  constexpr std::string_view kAnswer = "HTTP/";
  Event begin = Await({fd, POLLIN, 0}, Deadline::After(kBegins), limits);
  if (begin == Event::kLate) {
    if (send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kRequest.size())) {
      return false;
    }
    begin = Await({fd, POLLIN, 0}, Deadline::After(limits.patience), limits);
  }
  if (begin == Event::kCancelled) return Cancelled();
  std::array<char, kAnswer.size()> word{};
  return begin == Event::kCame &&
         recv(fd, word.data(), word.size(), 0) == static_cast<ssize_t>(word.size()) &&
         std::string_view(word.data(), word.size()) == kAnswer;
}

Status CheckTcp(const std::string& endpoint, const std::string& host, const Limits& limits) {
  // Name servers, and hosts that are far away, take their time.
  constexpr std::chrono::milliseconds kConnect{2000};
  control::TcpAttempt attempt(endpoint, std::max(limits.patience, kConnect));
  while (!attempt.obstacle().has_value()) {
    const Event event = Await(attempt.Wait(), attempt.deadline(), limits);
    if (event == Event::kCancelled) return Cancelled();
    if (event == Event::kLate && limits.deadline.Expired()) return OkStatus();
    attempt.Look(event == Event::kCame);
  }
  if (attempt.has_no_name()) {
    return InvalidArgument("the host name \"", host,
                           "\" cannot be resolved: ", *attempt.obstacle());
  }
  if (attempt.is_refused()) {
    return Unavailable("no controller answers at ", endpoint, ": nothing listens at ",
                       endpoint.substr(sizeof kTcp - 1), "; is it running?");
  }
  if (!attempt.obstacle()->empty()) return OkStatus();
  const int fd = attempt.TakeConnection();
  const absl::Cleanup close_it = [fd] { close(fd); };
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_http, SpeaksHttp(fd, limits));
  if (!is_http) return OkStatus();
  return InvalidArgument("an HTTP server answers at ", endpoint,
                         ", not a controller's client port; is it where metrics are read?");
}

}  // namespace

Status CheckEndpoint(const std::string& endpoint, Deadline deadline, int cancel_fd,
                     std::chrono::milliseconds patience) {
  if (endpoint.starts_with(kIpc)) {
    const std::string path = endpoint.substr(sizeof kIpc - 1);
    // An abstract name, or one that ZeroMQ chooses, has no file.
    return path.empty() || path[0] == '@' || path[0] == '*' ? OkStatus() : CheckSocket(path);
  }
  const std::string host = control::HostOf(endpoint);
  return host.empty() ? OkStatus() : CheckTcp(endpoint, host, {deadline, cancel_fd, patience});
}

bool MayBeStarting(const std::string& endpoint, const Status& found) {
  const std::string host = control::HostOf(endpoint);
  if (found.code() != StatusCode::kUnavailable || host.empty() || host == "localhost") return false;
  if (control::IsLoopbackAddress(host) || control::IsAnyAddress(host)) return false;
  return !control::LocalAddress(host).ok();
}

}  // namespace lockstep::client
