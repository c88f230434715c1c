#include "services/metrics/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "services/metrics/http_endpoint.h"

namespace lockstep::metrics {
namespace {

constexpr size_t kMostAnswerBytes = size_t{1} << 20;

Status Send(const Socket& socket, std::string_view text, const Deadline& deadline) {
  while (!text.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(Await(socket, POLLOUT, deadline));
    const ssize_t sent = send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return Unavailable(std::strerror(errno));
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
  return OkStatus();
}

// Until the peer closes the connection.
StatusOr<std::string> ReceiveAll(const Socket& socket, const Deadline& deadline) {
  std::string text;
  char bytes[4096];
  while (text.size() <= kMostAnswerBytes) {
    LOCKSTEP_RETURN_IF_ERROR(Await(socket, POLLIN, deadline));
    const ssize_t got = recv(socket.fd(), bytes, sizeof bytes, 0);
    if (got == 0) return text;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return Unavailable(std::strerror(errno));
    if (got > 0) text.append(bytes, static_cast<size_t>(got));
  }
  return Unavailable("the answer is larger than ", kMostAnswerBytes, " bytes");
}

StatusOr<HttpResponse> Ask(const std::string& endpoint, const std::string& path,
                           const Deadline& deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Socket socket, ConnectTo(endpoint, deadline));
  const std::string_view authority = std::string_view(endpoint).substr(kScheme.size());
  LOCKSTEP_RETURN_IF_ERROR(Send(socket, HttpRequestText(authority, path), deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string answer, ReceiveAll(socket, deadline));
  return ParseHttpAnswer(answer);
}

}  // namespace

StatusOr<HttpResponse> HttpGet(const std::string& endpoint, const std::string& path,
                               const Deadline& deadline) {
  StatusOr<HttpResponse> answer = Ask(endpoint, path, deadline);
  if (answer.ok() || answer.status().code() == StatusCode::kInvalidArgument) return answer;
  return Unavailable("no answer from ", endpoint, path, ": ", Message(answer.status()));
}

}  // namespace lockstep::metrics
