// The process of a client, watched until it ends.
#pragma once

#include "runtime/base/status.h"

namespace lockstep::worker {

// Holds the process itself and not its number, which the kernel gives away again.
//
// Threads: safe. Ownership: a descriptor, closed with the object.
class ClientProcess {
 public:
  // kInvalidArgument: a number that no process has (0 and below mean groups of processes);
  // kNotFound: it has ended; kUnavailable: the kernel cannot watch it.
  static StatusOr<ClientProcess> Watch(int pid);

  ClientProcess(ClientProcess&& other) noexcept;
  ClientProcess& operator=(ClientProcess&& other) noexcept;
  ~ClientProcess();

  bool HasEnded() const;
  // Readable once the process has ended.
  int fd() const { return fd_; }

 private:
  explicit ClientProcess(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace lockstep::worker
