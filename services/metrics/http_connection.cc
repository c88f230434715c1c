#include "services/metrics/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace lockstep::metrics {
namespace {

constexpr char kTooLong[] =
    "HTTP/1.1 431 Request Header Fields Too Large\r\n"
    "Connection: close\r\nContent-Length: 0\r\n\r\n";

bool IsForLater(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

short HttpConnection::events() const { return phase_ == Phase::kAnswering ? POLLOUT : POLLIN; }

bool HttpConnection::Advance(const HttpAnswer& answer) {
  if (phase_ == Phase::kListening && !Receive(answer)) return false;
  if (phase_ == Phase::kAnswering && !Send()) return false;
  return phase_ != Phase::kAnswered || PassOver();
}

bool HttpConnection::Receive(const HttpAnswer& answer) {
  char bytes[4096];
  const ssize_t got = recv(fd(), bytes, sizeof bytes, 0);
  if (got < 0) return IsForLater(errno);
  if (got == 0 && head_.empty()) return false;
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t looked_at = head_.size() - std::min(head_.size(), kEnd.size() - 1);
  head_.append(bytes, static_cast<size_t>(got));
  const size_t end = head_.find(kEnd, looked_at);
  if (end != std::string::npos) {
    // A body, should there be one, is passed over.
    head_.resize(end + kEnd.size());
  } else if (got > 0 && head_.size() < kMostHeadBytes) {
    return true;
  }
  answer_ = end == std::string::npos && got > 0 ? kTooLong : answer(head_);
  phase_ = Phase::kAnswering;
  deadline_ = Deadline::After(kAnswerPatience);
  return !answer_.empty();
}

bool HttpConnection::Send() {
  while (sent_bytes_ < answer_.size()) {
    const ssize_t sent =
        send(fd(), answer_.data() + sent_bytes_, answer_.size() - sent_bytes_, MSG_NOSIGNAL);
    if (sent < 0) return IsForLater(errno);
    sent_bytes_ += static_cast<size_t>(sent);
  }
  answer_ = {};
  phase_ = Phase::kAnswered;
  deadline_ = Deadline::After(kRequestPatience);
  return shutdown(fd(), SHUT_WR) == 0;
}

// A socket that is closed with something unread in it takes back what it has not sent yet: the peer
// closes first, if it does so in time.
bool HttpConnection::PassOver() {
  char bytes[16 << 10];
  const ssize_t got = recv(fd(), bytes, sizeof bytes, 0);
  return got > 0 || (got < 0 && IsForLater(errno));
}

}  // namespace lockstep::metrics
