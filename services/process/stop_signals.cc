#include "services/process/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
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

// What handlers write to, a byte with the signal's number, and StopSignals reads.
int signals_pipe[2] = {-1, -1};
pid_t catching_process = 0;

void OnStopSignal(int signal_number) {
  const int error = errno;
  if (getpid() == catching_process) {
    const char number = static_cast<char>(signal_number);
    [[maybe_unused]] const ssize_t written = write(signals_pipe[1], &number, 1);
  } else {
    // A child that has not become another program yet: it ends as any would.
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  errno = error;
}

void OnBrokenPipe(int /*signal_number*/) {}

void Catch(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

// The signal that has come; 0: none.
int TakeSignal() {
  char number = 0;
  return read(signals_pipe[0], &number, 1) == 1 ? number : 0;
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

void CatchStopSignals() {
  // Kept for as long as the process lives: handlers may run at any time.
  if (signals_pipe[0] < 0 && pipe2(signals_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    log::Critical("cannot watch for signals: ", std::strerror(errno));
    log::Flush();
    _exit(1);
  }
  catching_process = getpid();
  Catch(SIGTERM, OnStopSignal);
  Catch(SIGINT, OnStopSignal);
  Catch(SIGPIPE, OnBrokenPipe);
}

StatusOr<std::unique_ptr<StopSignals>> StopSignals::Watch(
    pid_t parent, std::function<void(const std::string& reason)> on_stop, int input_fd) {
  int parent_fd = -1;
  if (parent != 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(parent_fd, OpenParent(parent));
  }
  const int end_fd = eventfd(0, EFD_CLOEXEC);
  if (end_fd < 0) {
    const Status status = ResourceExhausted("cannot watch for signals: ", std::strerror(errno));
    if (parent_fd >= 0) close(parent_fd);
    return status;
  }
  return std::unique_ptr<StopSignals>(
      new StopSignals(parent_fd, end_fd, input_fd, std::move(on_stop)));
}

StopSignals::StopSignals(int parent_fd, int end_fd, int input_fd,
                         std::function<void(const std::string&)> on_stop)
    : parent_fd_(parent_fd),
      end_fd_(end_fd),
      input_fd_(input_fd),
      on_stop_(std::move(on_stop)),
      thread_([this] { Run(); }) {}

StopSignals::~StopSignals() {
  eventfd_write(end_fd_, 1);
  thread_.join();
  close(end_fd_);
  if (parent_fd_ >= 0) close(parent_fd_);
}

void StopSignals::Run() {
  // poll() passes over negative descriptors.
  pollfd watched[] = {{end_fd_, POLLIN, 0},
                      {signals_pipe[0], POLLIN, 0},
                      {parent_fd_, POLLIN, 0},
                      {input_fd_, POLLIN, 0}};
  bool stopping = false;
  Deadline give_up = Deadline::After(kStopGrace);
  while (true) {
    const int ready = poll(watched, 4, stopping ? give_up.RemainingMillis() : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) return;

    std::string reason;
    if (const int number = TakeSignal(); number != 0) {
      reason = std::string("got ") + (number == SIGINT ? "SIGINT" : "SIGTERM");
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

StatusOr<std::unique_ptr<StopRequest>> StopRequest::Watch(pid_t parent, int input_fd) {
  CatchStopSignals();
  std::unique_ptr<StopRequest> request(new StopRequest);
  const auto take = [request = request.get()](const std::string& reason) { request->Take(reason); };
  LOCKSTEP_ASSIGN_OR_RETURN(request->signals_, StopSignals::Watch(parent, take, input_fd));
  return request;
}

bool StopRequest::Came() const {
  std::lock_guard lock(mutex_);
  return !reason_.empty();
}

void StopRequest::Forward(std::function<void(const std::string&)> on_stop) {
  std::lock_guard lock(mutex_);
  on_stop_ = std::move(on_stop);
  if (on_stop_ && !reason_.empty()) on_stop_(reason_);
}

void StopRequest::Take(const std::string& reason) {
  std::lock_guard lock(mutex_);
  reason_ = reason;
  if (on_stop_) on_stop_(reason_);
}

}  // namespace lockstep::process
