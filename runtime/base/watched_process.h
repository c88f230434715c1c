// Another process, watched until it ends.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "runtime/base/exit_status.h"
#include "runtime/base/status.h"

namespace lockstep {

// Holds the process itself and not its number, which the kernel gives away again.
//
// Threads: safe. Ownership: a descriptor, closed with the object.
class WatchedProcess {
 public:
  // kInvalidArgument: a number that no process has (0 and below mean groups of processes);
  // kNotFound: it has ended; kUnavailable: the kernel cannot watch it.
  static StatusOr<WatchedProcess> Watch(pid_t pid);

  WatchedProcess(WatchedProcess&& other) noexcept;
  WatchedProcess& operator=(WatchedProcess&& other) noexcept;
  ~WatchedProcess();

  bool HasEnded() const;
  // By SIGSTOP or a debugger: it lives, and does nothing.
  bool IsStopped() const;
  // Whether it maps a file whose name, without its directory, is `file`; one that was removed since
  // counts. kPermissionDenied: we may not look; kNotFound: it has ended.
  StatusOr<bool> Maps(std::string_view file) const;
  // Once it has.
  ExitStatus HowItEnded() const { return ExitStatusOf(fd_, pid_); }
  // Readable once the process has ended.
  int fd() const { return fd_; }
  pid_t pid() const { return pid_; }

 private:
  WatchedProcess(int fd, pid_t pid) : fd_(fd), pid_(pid) {}

  int fd_;
  pid_t pid_;
};

}  // namespace lockstep
