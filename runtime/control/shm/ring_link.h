// The unix socket between the controller and a worker or client that share rings: it hands
// descriptors over, carries wake-ups, and ends with the process at its other end.
//
// Its address is a name of the abstract kind, which no file has. Other users may find it, as the
// kernel lists such names, and connect; but it tells each end whose the other one is, and another
// user's is refused.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/resources.h"
#include "runtime/base/status.h"
#include "runtime/control/shm/descriptor.h"

namespace lockstep::control {

// Threads: one at a time.
class RingLink {
 public:
  // kUnavailable: nobody listens there (it is another host's, or has ended); kPermissionDenied:
  // another user does.
  static StatusOr<RingLink> Connect(const std::string& address);

  // kUnavailable if it cannot be sent now: the other end has gone, or does not read.
  Status Send(std::string_view bytes, absl::Span<const int> descriptors = {});

  // What has come. Descriptors are given where they are asked for, and closed otherwise.
  enum class Input { kNothing, kMessage, kClosed };
  Input Receive(std::string* bytes, std::vector<Descriptor>* descriptors = nullptr);

  // Makes fd() readable at the other end; what it does not read for now is enough to wake it.
  void Wake();
  // Takes all wake-ups that have come. False: the other end is closed.
  bool TakeWakes();

  // Readable when something has come or the other end is closed.
  int fd() const { return socket_.get(); }
  // Of the process at the other end, as the kernel knows it.
  pid_t peer_pid() const { return peer_pid_; }

 private:
  friend class RingListener;
  static StatusOr<RingLink> Check(Descriptor socket);
  RingLink(Descriptor socket, pid_t peer_pid) : socket_(std::move(socket)), peer_pid_(peer_pid) {}

  Descriptor socket_;
  pid_t peer_pid_;
};

// Threads: one at a time.
class RingListener {
 public:
  static StatusOr<RingListener> Create();

  const std::string& address() const { return address_; }
  // Readable when a connection may have come.
  int fd() const { return socket_.get(); }
  // The connections of this user's among some that have come. Those of others are closed; fd()
  // stays readable if there are more, so that nobody who connects again and again keeps us here.
  std::vector<RingLink> Accept();

 private:
  RingListener(Descriptor socket, std::string address);

  Descriptor socket_;
  std::string address_;
  // Released when no descriptor is left, to turn away who waits: fd() would stay readable.
  std::unique_ptr<DescriptorReserve> spare_;
};

}  // namespace lockstep::control
