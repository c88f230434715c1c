// A worker on another host, represented by a process here: what watches, signals or kills this
// process does so to that worker. It runs ssh, or whatever else leads there, and holds the pipe
// that is the worker's standard input at the other end: the worker's configuration goes through it,
// and when it ends, for whatever reason, so does the worker. So none is left behind
//     when this process is told to stop, or killed      the pipe is closed, ssh passes that on
//     when ssh is killed, or the connection breaks      sshd closes the worker's input
// and this process ends when ssh does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::remote {

// One of the few logins at a host that may be under way at a time: sshd turns some away once there
// are ten (its MaxStartups), at random, and the workers of a host come all at once.
//
// Threads: one at a time. A slot is a file that its user locks: the kernel frees that of a process
// that is killed.
class LoginSlot {
 public:
  // Empty `path`: no slot is needed.
  static StatusOr<LoginSlot> Open(const std::string& path);

  LoginSlot(LoginSlot&& other) noexcept;
  LoginSlot& operator=(LoginSlot&&) = delete;
  ~LoginSlot();

  // True if it is ours from now on; false if another process has it.
  bool TryTake();
  // Lets others have it, for good.
  void Release();
  bool released() const { return fd_ < 0; }

 private:
  explicit LoginSlot(int fd) : fd_(fd) {}
  int fd_;
};

struct RemoteWorkerOptions {
  std::string host;         // for messages
  std::string config_path;  // the worker's configuration, a file here
  // What runs the worker there; argv[0] is a path. Its output goes where this process's goes.
  std::vector<std::string> command;
  // The command waits for this login slot, and gives it back once it has read the configuration,
  // which ssh does when it has logged in. Empty: it need not wait.
  std::string login_slot;
};

// Threads: RequestStop() from any, the rest one at a time.
class RemoteWorker {
 public:
  // kNotFound: no such configuration; kResourceExhausted: one that is larger than a pipe.
  static StatusOr<std::unique_ptr<RemoteWorker>> Start(const RemoteWorkerOptions& options);
  ~RemoteWorker();

  // Makes Wait() end the worker.
  void RequestStop(const std::string& reason);

  // Runs the command, when it is its turn. OK: it has ended in order; kUnavailable says how else it
  // has ended; kNotFound: it cannot be executed. kDeadlineExceeded: it runs, or waits.
  // After RequestStop() it takes at most two seconds more than `deadline` has: first the worker may
  // end by itself, then the command is ended by signals.
  Status Wait(Deadline deadline);

 private:
  RemoteWorker(const RemoteWorkerOptions& options, LoginSlot slot, int stop_fd);

  Status OpenInput(const std::string& text);
  Status Spawn();
  // Spawns the command when the slot is free, and frees the slot when the command has its input.
  Status Proceed();
  Status End();
  Status Describe(const ExitStatus& status) const;

  const RemoteWorkerOptions options_;
  LoginSlot slot_;
  std::optional<ChildProcess> child_;
  // The pipe that is the worker's standard input. -1: closed.
  int input_read_fd_ = -1;
  int input_fd_ = -1;
  const int stop_fd_;  // readable after RequestStop()
};

}  // namespace lockstep::remote
