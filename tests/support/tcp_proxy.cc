#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::support {
namespace {

sockaddr_in AddressOf(const std::string& endpoint) {
  const size_t begin = endpoint.find("//") + 2;
  const size_t colon = endpoint.rfind(':');
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, endpoint.substr(begin, colon - begin).c_str(), &address.sin_addr), 1)
      << endpoint;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(colon + 1))));
  return address;
}

}  // namespace

TcpProxy::TcpProxy(const std::string& target)
    : target_(AddressOf(target)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = AddressOf("tcp://127.0.0.1:0");
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener_, any, size), 0);
  EXPECT_EQ(listen(listener_, 64), 0);
  EXPECT_EQ(getsockname(listener_, any, &size), 0);
  endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  thread_.join();
  for (const Link& link : links_) {
    for (const int end : link.ends) close(end);
  }
  close(listener_);
}

void TcpProxy::Accept() {
  Link link;
  link.ends[0] = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (link.ends[0] < 0) return;
  link.ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      !unplugged_ &&
      connect(link.ends[1], reinterpret_cast<const sockaddr*>(&target_), sizeof target_) == 0;
  if (connected) {
    links_.push_back(link);
  } else {
    for (const int end : link.ends) close(end);
  }
}

bool TcpProxy::Forward(int from, int to) {
  char buffer[1 << 16];
  const ssize_t size = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
  if (size <= 0) return false;
  for (ssize_t sent = 0; sent < size;) {
    const ssize_t some = send(to, buffer + sent, static_cast<size_t>(size - sent), MSG_NOSIGNAL);
    if (some <= 0) return false;
    sent += some;
  }
  return true;
}

void TcpProxy::Run() {
  while (!stopping_) {
    std::vector<pollfd> watched = {{listener_, POLLIN, 0}};
    // What is held up stays in the kernel's buffers, where its sender sees it as sent.
    const bool held_up = std::chrono::steady_clock::now() < held_until_.load();
    const short wanted = held_up ? 0 : POLLIN;
    for (const Link& link : links_) {
      for (const int end : link.ends) watched.push_back({end, wanted, 0});
    }
    constexpr int kLookMillis = 2;
    poll(watched.data(), watched.size(), kLookMillis);
    const int cuts = cuts_;
    const bool cut = cuts != cuts_done_;
    std::vector<Link> kept;
    for (size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      bool alive = !cut;
      for (int side = 0; alive && side < 2; ++side) {
        if (held_up || watched[1 + 2 * i + static_cast<size_t>(side)].revents == 0) continue;
        alive = Forward(link.ends[side], link.ends[1 - side]);
      }
      if (alive) {
        kept.push_back(link);
      } else {
        for (const int end : link.ends) close(end);
      }
    }
    links_ = std::move(kept);
    cuts_done_ = cuts;
    if ((watched[0].revents & POLLIN) != 0) Accept();
  }
}

}  // namespace lockstep::support
