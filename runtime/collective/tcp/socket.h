// TCP sockets: of this process, and never waited for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace lockstep::collective::tcp {

// Where a socket listens: what others connect to.
struct Place {
  std::string address;  // numeric, IPv4 or IPv6
  uint16_t port = 0;

  // What is sent there from this host stays on it.
  bool IsLoopback() const;
};

// Threads: one at a time. Closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Listens at an address of this host, or where its name is looked up to be one; empty: that of
  // this host's name. Any port. kUnavailable says why it cannot.
  static StatusOr<Socket> Listen(const std::string& address);
  StatusOr<Place> place() const;
  // A connection that has come; one that is not open if there is none, and then errno says why.
  Socket Accept() const;

  // Begins to connect: once poll() says that it can be written to, ConnectError() is 0 or an errno.
  static StatusOr<Socket> Connect(const Place& place);
  int ConnectError() const;
  // The kernel has taken something of what was written, and not given it to the network yet.
  bool HasUnsent() const;

 private:
  // As messages need it: what is small is sent at once.
  void Prepare() const;

  int fd_ = -1;
};

}  // namespace lockstep::collective::tcp
