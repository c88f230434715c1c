#include "tests/support/delaying_wire.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

namespace lockstep::support {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How late it may notice that it is to end.
constexpr milliseconds kLookEvery{20};
// The largest segment that a sender leaves to its card to cut, and what stands before it: the
// frame's own header and the 10 bytes of virtio_net_hdr (which is no C++).
constexpr size_t kMaxFrame = (size_t{64} << 10) + 256;

void Must(bool holds, const char* what, const std::string& interface) {
  if (holds) return;
  std::cerr << "the wire at " << interface << ": " << what << ": " << std::strerror(errno)
            << std::endl;
  std::abort();
}

// Sees each frame that comes in at `interface`, and sends as if it were the one at its other end.
int Attach(const std::string& interface) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  Must(fd >= 0, "cannot open a packet socket", interface);
  const int yes = 1;
  // Checksums and the cutting of segments that senders leave to their cards stay left to them.
  Must(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) == 0, "PACKET_VNET_HDR",
       interface);
  Must(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) == 0,
       "PACKET_IGNORE_OUTGOING", interface);
  const int room = 64 << 20;
  Must(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0, "SO_RCVBUFFORCE",
       interface);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  Must(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind",
       interface);
  return fd;
}

}  // namespace

DelayingWire::DelayingWire(const std::string& one_end, const std::string& other_end,
                           milliseconds each_way)
    : delay_(each_way), buffer_(kMaxFrame) {
  ends_[0].fd = Attach(one_end);
  ends_[1].fd = Attach(other_end);
  thread_ = std::thread([this] { Run(); });
}

DelayingWire::~DelayingWire() {
  stopping_ = true;
  thread_.join();
  for (const End& end : ends_) close(end.fd);
}

void DelayingWire::Run() {
  while (!stopping_) {
    pollfd waits[] = {{ends_[0].fd, POLLIN, 0}, {ends_[1].fd, POLLIN, 0}};
    poll(waits, 2, static_cast<int>(UntilNextIsDue().count()));
    Accept(ends_[0], ends_[1]);
    Accept(ends_[1], ends_[0]);
    const auto now = steady_clock::now();
    for (End& end : ends_) Deliver(end, now);
  }
}

void DelayingWire::Accept(const End& from, End& to) {
  ssize_t size;
  while ((size = recv(from.fd, buffer_.data(), buffer_.size(), 0)) > 0) {
    to.coming.push_back({steady_clock::now() + delay_, {buffer_.data(), buffer_.data() + size}});
  }
}

void DelayingWire::Deliver(End& end, steady_clock::time_point now) {
  while (!end.coming.empty() && end.coming.front().due <= now) {
    const std::vector<char> frame = std::move(end.coming.front().bytes);
    end.coming.pop_front();
    // Where no host is any more, or none has room, it is lost, as on other wires.
    (void)!send(end.fd, frame.data(), frame.size(), 0);
  }
}

milliseconds DelayingWire::UntilNextIsDue() const {
  auto wait = steady_clock::duration(kLookEvery);
  for (const End& end : ends_) {
    if (!end.coming.empty()) wait = std::min(wait, end.coming.front().due - steady_clock::now());
  }
  // Rounded up: what is due within a millisecond is not polled for.
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(wait));
}

}  // namespace lockstep::support
