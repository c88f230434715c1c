#include "services/remote/remote_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
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

// What shells and ssh say by their exit codes.
constexpr int kCannotExecute = 126;
constexpr int kNotThere = 127;
constexpr int kNoConnection = 255;

struct Pipe {
  int read_fd = -1;
  int write_fd = -1;
  ~Pipe() {
    if (read_fd >= 0) close(read_fd);
    if (write_fd >= 0) close(write_fd);
  }
};

// Fills the pipe before anybody reads: nothing waits for a host that does not.
Status Fill(const Pipe& pipe, const std::string& text) {
  if (fcntl(pipe.write_fd, F_SETPIPE_SZ, text.size()) < 0 ||
      fcntl(pipe.write_fd, F_SETFL, O_NONBLOCK) != 0 ||
      write(pipe.write_fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return ResourceExhausted("no pipe takes a configuration of ", text.size(),
                             " bytes: ", std::strerror(errno));
  }
  return OkStatus();
}

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
  Pipe pipe;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("no pipe: ", std::strerror(errno));
  pipe.read_fd = ends[0];
  pipe.write_fd = ends[1];
  LOCKSTEP_RETURN_IF_ERROR(Fill(pipe, text));

  local::ChildOptions child;
  child.argv = options.command;
  child.input_fd = pipe.read_fd;
  // Without a terminal, nothing can ask for a password that nobody would see being asked for.
  child.detached = true;
  LOCKSTEP_ASSIGN_OR_RETURN(auto process, local::ChildProcess::Spawn(child));
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) return ResourceExhausted("no event: ", std::strerror(errno));
  return std::unique_ptr<RemoteWorker>(
      new RemoteWorker(options, std::move(process), std::exchange(pipe.write_fd, -1), stop_fd));
}

RemoteWorker::RemoteWorker(const RemoteWorkerOptions& options, local::ChildProcess child,
                           int input_fd, int stop_fd)
    : options_(options), child_(std::move(child)), input_fd_(input_fd), stop_fd_(stop_fd) {}

RemoteWorker::~RemoteWorker() {
  if (input_fd_ >= 0) close(input_fd_);
  close(stop_fd_);
}

void RemoteWorker::RequestStop(const std::string&) { eventfd_write(stop_fd_, 1); }

Status RemoteWorker::Wait(Deadline deadline) {
  pollfd watched[] = {{child_.pidfd(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  poll(watched, 2, deadline.RemainingMillis());
  if (watched[1].revents != 0) return End();
  LOCKSTEP_ASSIGN_OR_RETURN(const ExitStatus status, child_.Wait(Deadline::After(0s)));
  return Describe(status);
}

Status RemoteWorker::End() {
  if (input_fd_ >= 0) close(std::exchange(input_fd_, -1));
  for (const auto& [signal, patience] :
       {std::pair<int, std::chrono::milliseconds>(0, kStopPatience),
        {SIGTERM, kTermPatience},
        {SIGKILL, kTermPatience}}) {
    // The whole session of the command: it may be a script that has started ssh.
    if (signal != 0) kill(-child_.pid(), signal);
    const StatusOr<ExitStatus> status = child_.Wait(Deadline::After(patience));
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

}  // namespace lockstep::remote
