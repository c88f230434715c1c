// How a process ended.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

struct ExitStatus {
  int code = 0;    // its exit code, if no signal ended it
  int signal = 0;  // the signal that ended it; 0: none
  bool known = true;

  bool ok() const { return known && code == 0 && signal == 0; }
  // "ended with exit code 3", "was killed by signal 9 (Killed)", "ended, nobody knows how"
  std::string Describe() const;

  // From the status word of wait(2), and of the places in the kernel that show the same.
  static ExitStatus FromWaitStatus(int status);
};

// How the process `pid`, which `pidfd` refers to and which has ended, did so: asked of the kernel,
// whoever its parent is and whether that has reaped it or not. `known` is false where this kernel
// does not tell: reaped, and older than Linux 6.15; or another user's, and not reaped.
//
// Thread-safe. Costs a few system calls, and waits for nothing.
ExitStatus ExitStatusOf(int pidfd, pid_t pid);

}  // namespace lockstep
