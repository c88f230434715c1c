#include "services/metrics/http_port.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "services/metrics/http_message.h"

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;

// So that those that are there have their turn, however fast others come.
constexpr int kAcceptedAtOnce = 16;
// When accept() fails for a reason that will not go away by itself.
constexpr auto kPause = 50ms;
constexpr size_t kSpare = 4;

bool IsForLater(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(Socket listener, HttpAnswer answer) {
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) return ResourceExhausted("cannot serve HTTP: ", std::strerror(errno));
  return std::unique_ptr<HttpPort>(
      new HttpPort(std::move(listener), std::move(stop), std::move(answer)));
}

HttpPort::HttpPort(Socket listener, Socket stop, HttpAnswer answer)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      answer_(std::move(answer)),
      spare_(kSpare),
      thread_([this] { Run(); }) {}

HttpPort::~HttpPort() {
  eventfd_write(stop_.fd(), 1);
  thread_.join();
}

void HttpPort::Run() {
  while (Wait()) {
    // Connections about to be answered come before new ones, which may push them out.
    AdvanceAll();
    if (connections_.empty()) spare_.Refill();
    if (accept_again_.Expired()) AcceptSome();
  }
}

bool HttpPort::Wait() {
  const bool accepts = accept_again_.Expired();
  // poll() passes over negative descriptors.
  std::vector<pollfd> watched = {{stop_.fd(), POLLIN, 0},
                                 {accepts ? listener_.fd() : -1, POLLIN, 0}};
  Deadline next = accepts ? Deadline::After(1h) : accept_again_;
  for (const HttpConnection& connection : connections_) {
    watched.push_back({connection.fd(), connection.events(), 0});
    next = next.Earlier(connection.deadline());
  }
  if (poll(watched.data(), watched.size(), next.RemainingMillis()) < 0 && errno != EINTR) {
    std::this_thread::sleep_for(kPause);  // the kernel has no memory
  }
  has_event_.clear();
  for (size_t i = 2; i < watched.size(); ++i) has_event_.push_back(watched[i].revents != 0);
  return watched[0].revents == 0;
}

void HttpPort::AdvanceAll() {
  std::vector<HttpConnection> kept;
  for (size_t i = 0; i < connections_.size(); ++i) {
    HttpConnection& connection = connections_[i];
    if (connection.deadline().Expired()) continue;
    if (has_event_[i] && !connection.Advance(answer_)) continue;
    kept.push_back(std::move(connection));
  }
  connections_ = std::move(kept);
}

void HttpPort::AcceptSome() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      HttpConnection connection(std::move(socket));
      // Most requests come with the connection.
      if (!connection.Advance(answer_)) continue;
      if (connections_.size() == kMostConnections) DropConnection();
      connections_.push_back(std::move(connection));
    } else if (!MakeRoom(errno)) {
      return;
    }
  }
}

bool HttpPort::MakeRoom(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) return false;
  // The connection ended before it was accepted.
  if (error == EINTR || error == ECONNABORTED) return true;
  if (DescriptorReserve::IsExhausted(error)) {
    if (!connections_.empty()) {
      DropConnection();
      return true;
    }
    if (spare_.Release()) return true;
  }
  accept_again_ = Deadline::After(kPause);
  return false;
}

void HttpPort::DropConnection() {
  // The first of several that are equal is the oldest.
  connections_.erase(std::min_element(
      connections_.begin(), connections_.end(),
      [](const HttpConnection& a, const HttpConnection& b) { return a.phase() < b.phase(); }));
}

short HttpConnection::events() const { return phase_ == Phase::kAnswering ? POLLOUT : POLLIN; }

bool HttpConnection::Advance(const HttpAnswer& answer) {
  if (phase_ == Phase::kListening && !Receive(answer)) return false;
  if (phase_ == Phase::kAnswering && !Send()) return false;
  return phase_ != Phase::kAnswered || DiscardInput();
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
  answer_ = end == std::string::npos && got > 0 ? HttpAnswerText({.status = 431}) : answer(head_);
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
bool HttpConnection::DiscardInput() {
  char bytes[16 << 10];
  const ssize_t got = recv(fd(), bytes, sizeof bytes, 0);
  return got > 0 || (got < 0 && IsForLater(errno));
}

}  // namespace lockstep::metrics
