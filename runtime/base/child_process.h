// Starting, watching and ending child processes, from programs that have threads.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

namespace lockstep {

struct ChildOptions {
  // argv[0] is a path; PATH is not searched.
  std::vector<std::string> argv;
  // "NAME=VALUE"s that are added to this process's environment, or replace what is there.
  std::vector<std::string> environment;
  // Nothing of this process's environment, where a password may be.
  bool only_this_environment = false;
  // Standard output and error are appended to this file; empty: inherited.
  std::string log_path;
  // The standard input, borrowed until Spawn() returns; -1: none, which reads as empty.
  int input_fd = -1;
  // The standard output and error, borrowed likewise; -1: the log, or inherited.
  int output_fd = -1;
  int error_fd = -1;
  // In a session of its own (setsid): it outlives this process and its terminal.
  bool detached = false;
};

// A child has a process group of its own, so that ^C in a terminal reaches
// its parent only, which then ends it in order.
//
// Threads: one at a time. Ownership: a running child is killed and reaped when its object is
// destroyed, unless Release() was called.
class ChildProcess {
 public:
  // Returns once the program runs. kNotFound, kPermissionDenied: argv[0] cannot be executed;
  // kInvalidArgument: the log cannot be written; kResourceExhausted: no more processes.
  static StatusOr<ChildProcess> Spawn(const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Becomes readable when the child ends: for poll(). Owned by this object; -1 after Release().
  int pidfd() const { return pidfd_; }

  // How it ended; kDeadlineExceeded if it still runs then. May be asked again. Not known if another
  // part of this program reaped the child, or the kernel did (SIGCHLD is ignored), and the kernel
  // does not tell either.
  StatusOr<ExitStatus> Wait(Deadline deadline);
  bool Running() { return !Wait(Deadline::After(std::chrono::seconds(0))).ok(); }

  // Sends a signal; nothing happens if the child has ended.
  void Signal(int signal);

  // Waits, then sends SIGKILL if it has not ended by `patience`. Returns how it ended;
  // kDeadlineExceeded if even the kill does not end it within a second.
  StatusOr<ExitStatus> WaitOrKill(Deadline patience);
  // SIGTERM, then WaitOrKill().
  StatusOr<ExitStatus> Terminate(Deadline patience);

  // Lets the child live on. It is not waited for: its new parent reaps it, once this process ends.
  void Release();

 private:
  ChildProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  pid_t pid_ = -1;
  int pidfd_ = -1;  // -1: nothing to do any more
  bool ended_ = false;
  ExitStatus exit_status_;
};

// The executable `name` in a directory of PATH; empty if there is none.
std::string FindInPath(const std::string& name);

// Where the program `name` of this installation is: $`variable` if set, else beside the running
// program, else in `build_directory` of the build tree that the running program lies in
// ("services/worker" under build/bin), else in PATH. kNotFound says where it was looked for.
StatusOr<std::string> FindProgram(const std::string& name, const std::string& variable,
                                  const std::string& build_directory);

}  // namespace lockstep
