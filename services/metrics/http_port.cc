#include "services/metrics/http_port.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;

// So that those that are there have their turn, however fast others come.
constexpr int kAcceptedAtOnce = 16;
// When accept() fails for a reason that will not go away by itself.
constexpr auto kPause = 50ms;
constexpr size_t kSpare = 4;

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
    // Whoever is about to be answered comes before those who may push him out.
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
  has_come_.clear();
  for (size_t i = 2; i < watched.size(); ++i) has_come_.push_back(watched[i].revents != 0);
  return watched[0].revents == 0;
}

void HttpPort::AdvanceAll() {
  std::vector<HttpConnection> kept;
  for (size_t i = 0; i < connections_.size(); ++i) {
    HttpConnection& connection = connections_[i];
    if (connection.deadline().Expired()) continue;
    if (has_come_[i] && !connection.Advance(answer_)) continue;
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
      if (connections_.size() == kMostConnections) CutOneOff();
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
  if (SpareDescriptors::AreWanted(error)) {
    if (!connections_.empty()) {
      CutOneOff();
      return true;
    }
    if (spare_.Release()) return true;
  }
  accept_again_ = Deadline::After(kPause);
  return false;
}

void HttpPort::CutOneOff() {
  // The first of several that are equal is the oldest.
  connections_.erase(std::min_element(
      connections_.begin(), connections_.end(),
      [](const HttpConnection& a, const HttpConnection& b) { return a.phase() < b.phase(); }));
}

}  // namespace lockstep::metrics
