// Other processes: whether one lives, whether it is stopped, and how it ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep {

// What the kernel shows of a process in /proc/<pid>/stat; see proc(5).
struct ProcStat {
  char state = '?';      // 'R' running, 'S' sleeping, 'D' waiting in the kernel, 'T' stopped,
                         // 't' stopped by a debugger, 'Z' ended and not reaped
  int exit_status = 0;   // of 'Z': the status word of wait(2) ...
  bool may_see = false;  // ... which the kernel may show as 0, whatever it is, unless this is true
};

// Null if there is no such process.
std::optional<ProcStat> ReadProcStat(pid_t pid);

// How a process ended.
struct ExitStatus {
  int code = 0;    // its exit code, if no signal ended it
  int signal = 0;  // the signal that ended it; 0: none
  bool known = true;

  bool ok() const { return known && code == 0 && signal == 0; }
  // "ended with exit code 3", "was killed by signal 9 (Killed)", "ended in an unknown way"
  std::string Describe() const;

  // From the status word of wait(2), and of the places in the kernel that show the same.
  static ExitStatus FromWaitStatus(int status);
};

// How the process `pid`, which `pidfd` refers to and which has ended, did so: asked of the kernel,
// whatever its parent is, and whether that has reaped it or not. `known` is false where this kernel
// does not tell: reaped, and older than Linux 6.15; or another user's, and not reaped.
//
// Thread-safe. Costs a few system calls, and waits for nothing.
ExitStatus ExitStatusOf(int pidfd, pid_t pid);

// How many processes of this host the kernel has killed for lack of memory since it was started,
// those that reached the limit of a container or service included. Null where it does not tell
// (before Linux 4.13). `vmstat` is /proc/vmstat, but in tests.
std::optional<uint64_t> CountOomKills(const std::string& vmstat = "/proc/vmstat");

// Another process, watched until it ends.
//
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
