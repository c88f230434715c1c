// What the kernel shows of a process in /proc/<pid>/stat; see proc(5).
#pragma once

#include <sys/types.h>

#include <optional>

namespace lockstep {

struct ProcStat {
  char state = '?';      // 'R' running, 'S' sleeping, 'D' waiting in the kernel, 'T' stopped,
                         // 't' stopped by a debugger, 'Z' ended and not reaped
  int exit_status = 0;   // of 'Z': the status word of wait(2) ...
  bool may_see = false;  // ... which the kernel may show as 0, whatever it is, unless this is true
};

// Null if there is no such process.
std::optional<ProcStat> ReadProcStat(pid_t pid);

}  // namespace lockstep
