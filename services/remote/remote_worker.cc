#include "services/remote/remote_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "services/local/remote_command.h"

namespace lockstep::remote {
namespace {

using namespace std::chrono_literals;

// How long the worker may take to end by itself, and the command to end by SIGTERM.
constexpr auto kStopPatience = 1s;
constexpr auto kTermPatience = 300ms;

// How often a slot and the pipe are looked at, while the worker starts.
constexpr auto kPollInterval = 10ms;

// What shells and ssh say by their exit codes.
constexpr int kCannotExecute = 126;
constexpr int kNotThere = 127;
constexpr int kNoConnection = 255;

StatusOr<std::string> ReadConfiguration(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("cannot read ", path, ": ", std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf() << "...\n";  // the input goes on, the document does not
  return text.str();
}

}  // namespace

StatusOr<std::unique_ptr<RemoteWorker>> RemoteWorker::Start(const RemoteWorkerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadConfiguration(options.config_path));
  LOCKSTEP_ASSIGN_OR_RETURN(LoginSlot slot, LoginSlot::Open(options.login_slot));
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) return ResourceExhausted("no event: ", std::strerror(errno));
  std::unique_ptr<RemoteWorker> worker(new RemoteWorker(options, std::move(slot), stop_fd));
  LOCKSTEP_RETURN_IF_ERROR(worker->OpenInput(text));
  return worker;
}

RemoteWorker::RemoteWorker(const RemoteWorkerOptions& options, LoginSlot slot, int stop_fd)
    : options_(options), slot_(std::move(slot)), stop_fd_(stop_fd) {}

RemoteWorker::~RemoteWorker() {
  for (const int fd : {input_read_fd_, input_fd_, stop_fd_}) {
    if (fd >= 0) close(fd);
  }
}

// The pipe is filled before the other end reads: nothing waits for a host that does not.
Status RemoteWorker::OpenInput(const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("no pipe: ", std::strerror(errno));
  input_read_fd_ = ends[0];
  input_fd_ = ends[1];
  if (fcntl(input_fd_, F_SETPIPE_SZ, text.size()) < 0 ||
      fcntl(input_fd_, F_SETFL, O_NONBLOCK) != 0 ||
      write(input_fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return ResourceExhausted("no pipe takes a configuration of ", text.size(),
                             " bytes: ", std::strerror(errno));
  }
  return OkStatus();
}

Status RemoteWorker::Spawn() {
  ChildOptions child;
  child.argv = options_.command;
  child.input_fd = input_read_fd_;
  // Without a terminal, nothing can ask for a password, which no user would see.
  child.detached = true;
  LOCKSTEP_ASSIGN_OR_RETURN(child_, ChildProcess::Spawn(child));
  close(std::exchange(input_read_fd_, -1));
  return OkStatus();
}

Status RemoteWorker::Proceed() {
  if (!child_.has_value()) return slot_.TryTake() ? Spawn() : OkStatus();
  int unread = 0;
  if (!slot_.released() && ioctl(input_fd_, FIONREAD, &unread) == 0 && unread == 0) slot_.Release();
  return OkStatus();
}

void RemoteWorker::RequestStop(const std::string&) { eventfd_write(stop_fd_, 1); }

Status RemoteWorker::Wait(Deadline deadline) {
  while (true) {
    LOCKSTEP_RETURN_IF_ERROR(Proceed());
    // Nothing wakes this process when a slot becomes free, or when the command reads.
    const bool looks = !child_.has_value() || !slot_.released();
    const Deadline wake_up = looks ? Deadline::After(kPollInterval).Earlier(deadline) : deadline;
    pollfd watched[] = {{stop_fd_, POLLIN, 0}, {child_ ? child_->pidfd() : -1, POLLIN, 0}};
    poll(watched, 2, wake_up.RemainingMillis());
    if (watched[0].revents != 0) return End();
    if (watched[1].revents != 0) {
      LOCKSTEP_ASSIGN_OR_RETURN(const ExitStatus status, child_->Wait(Deadline::After(0s)));
      return Describe(status);
    }
    if (deadline.Expired()) return DeadlineExceeded("the worker's command has not ended");
  }
}

Status RemoteWorker::End() {
  if (!child_.has_value()) return OkStatus();
  close(std::exchange(input_fd_, -1));
  for (const auto& [signal, patience] :
       {std::pair<int, std::chrono::milliseconds>(0, kStopPatience),
        {SIGTERM, kTermPatience},
        {SIGKILL, kTermPatience}}) {
    // The whole session of the command: it may be a script that has started ssh.
    if (signal != 0) kill(-child_->pid(), signal);
    const StatusOr<ExitStatus> status = child_->Wait(Deadline::After(patience));
    if (status.ok()) return Describe(*status);
  }
  return Unavailable(options_.host, ": ", local::ShellLine(options_.command), " survives SIGKILL");
}

Status RemoteWorker::Describe(const ExitStatus& status) const {
  if (status.ok()) return OkStatus();
  std::string why;
  if (status.code == kNoConnection) {
    why = "; by 255, ssh says that it could not connect, or has lost the connection";
  } else if (status.code == kNotThere) {
    why =
        "; by 127, the shell there says that it does not find the program: install it, or set "
        "remote_program";
  } else if (status.code == kCannotExecute) {
    why = "; by 126, the shell there says that it cannot execute the program";
  }
  return Unavailable("the command for a worker on ", options_.host, " ", status.Describe(), why,
                     ". The command: ", local::ShellLine(options_.command));
}

StatusOr<LoginSlot> LoginSlot::Open(const std::string& path) {
  if (path.empty()) return LoginSlot(-1);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return FailedPrecondition("cannot open ", path, ": ", std::strerror(errno));
  return LoginSlot(fd);
}

LoginSlot::LoginSlot(LoginSlot&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LoginSlot::~LoginSlot() { Release(); }

bool LoginSlot::TryTake() { return released() || flock(fd_, LOCK_EX | LOCK_NB) == 0; }

void LoginSlot::Release() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace lockstep::remote
