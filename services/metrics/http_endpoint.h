// Where HTTP is spoken: "http://HOST:PORT", an IPv6 address in brackets.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::metrics {

inline constexpr std::string_view kScheme = "http://";

// A socket, or another descriptor, that is closed with its object.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct Listener {
  Socket socket;         // does not block
  std::string endpoint;  // with the port that it really has
};

// `endpoint` is "http://ADDRESS:PORT", an IPv6 address in brackets; port * or 0: any free one.
// kInvalidArgument; kUnavailable if it cannot listen there.
StatusOr<Listener> Listen(const std::string& endpoint);

// Until poll()'s `event`; kUnavailable if it does not come by `deadline`.
Status Await(const Socket& socket, short event, const Deadline& deadline);

// A connection with who listens at `endpoint`; it does not block. Port 0 or *, or no endpoint at
// all: kInvalidArgument. kUnavailable if there is none until `deadline`; a resolver that asks
// others may take longer.
StatusOr<Socket> ConnectTo(const std::string& endpoint, const Deadline& deadline);

}  // namespace lockstep::metrics
