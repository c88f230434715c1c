#include "services/process/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"

namespace lockstep::process {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// A descriptor that becomes readable when `parent` ends.
StatusOr<int> OpenParent(pid_t parent) {
  const Status not_parent = FailedPrecondition(
      "process ", parent, " is not the parent of this one (any more); the parent is ", getppid());
  if (getppid() != parent) return not_parent;
  // The number from the header: glibc before 2.36 has no function for it.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  if (fd < 0) return FailedPrecondition("cannot watch the parent: ", std::strerror(errno));
  // Had the parent ended before the call, the descriptor could be that of another process.
  if (getppid() != parent) {
    close(fd);
    return not_parent;
  }
  return fd;
}

// Passes over what has come, of which there is some, or the end.
bool HasEnded(int input_fd) {
  char passed_over[4096];
  const ssize_t count = read(input_fd, passed_over, sizeof passed_over);
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

StatusOr<std::unique_ptr<StopSignals>> StopSignals::Watch(
    pid_t parent, std::function<void(const std::string& reason)> on_stop, int input_fd) {
  int parent_fd = -1;
  if (parent != 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(parent_fd, OpenParent(parent));
  }
  const sigset_t set = StopSet();
  const int signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const int end_fd = eventfd(0, EFD_CLOEXEC);
  if (signals_fd < 0 || end_fd < 0) {
    const Status status = ResourceExhausted("cannot watch for signals: ", std::strerror(errno));
    for (const int fd : {parent_fd, signals_fd, end_fd}) {
      if (fd >= 0) close(fd);
    }
    return status;
  }
  return std::unique_ptr<StopSignals>(
      new StopSignals(signals_fd, parent_fd, end_fd, input_fd, std::move(on_stop)));
}

StopSignals::StopSignals(int signals_fd, int parent_fd, int end_fd, int input_fd,
                         std::function<void(const std::string&)> on_stop)
    : signals_fd_(signals_fd),
      parent_fd_(parent_fd),
      end_fd_(end_fd),
      input_fd_(input_fd),
      on_stop_(std::move(on_stop)),
      thread_([this] { Run(); }) {}

StopSignals::~StopSignals() {
  eventfd_write(end_fd_, 1);
  thread_.join();
  close(end_fd_);
  close(signals_fd_);
  if (parent_fd_ >= 0) close(parent_fd_);
}

void StopSignals::Run() {
  // poll() passes over negative descriptors.
  pollfd watched[] = {{end_fd_, POLLIN, 0},
                      {signals_fd_, POLLIN, 0},
                      {parent_fd_, POLLIN, 0},
                      {input_fd_, POLLIN, 0}};
  bool stopping = false;
  Deadline give_up = Deadline::After(kStopGrace);
  while (true) {
    const int ready = poll(watched, 4, stopping ? give_up.RemainingMillis() : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) return;

    std::string reason;
    signalfd_siginfo info{};
    if (read(signals_fd_, &info, sizeof info) == sizeof info) {
      reason = std::string("got ") + (info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    } else if (watched[2].revents != 0) {
      reason = "the parent process has ended";
      watched[2].fd = -1;
    } else if (watched[3].revents != 0 && HasEnded(input_fd_)) {
      reason = "the standard input has ended";
      watched[3].fd = -1;
    }
    if (!stopping && !reason.empty()) {
      stopping = true;
      give_up = Deadline::After(kStopGrace);
      log::Info("stopping: ", reason);
      on_stop_(reason);
    } else if (stopping && (!reason.empty() || give_up.Expired())) {
      log::Critical("ending at once: ",
                    reason.empty() ? "the orderly stop takes too long" : reason + " again");
      // The threads that do not stop may hold any lock: no destructors.
      log::Flush();
      _exit(1);
    }
  }
}

}  // namespace lockstep::process
