#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

// How long a process may take to end after SIGKILL.
constexpr std::chrono::seconds kKillPatience{1};

Status SpawnError(const std::string& program, int error) {
  const std::string text = "cannot start " + program + ": " + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(text);
    case EACCES:
    case EPERM:
    case ENOEXEC:
      return PermissionDenied(text);
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ResourceExhausted(text);
    default:
      return Internal(text);
  }
}

// The environment of this process, or an empty one, with `changes` applied, as execve() wants it.
// The pointers are to environ's and to `changes`' characters.
std::vector<char*> Environment(const std::vector<std::string>& changes, bool only_these) {
  std::vector<char*> result;
  for (char** variable = environ; !only_these && *variable != nullptr; ++variable) {
    bool replaced = false;
    for (const std::string& change : changes) {
      const size_t name_length = change.find('=') + 1;
      replaced = replaced || std::strncmp(*variable, change.c_str(), name_length) == 0;
    }
    if (!replaced) result.push_back(*variable);
  }
  for (const std::string& change : changes) result.push_back(const_cast<char*>(change.c_str()));
  result.push_back(nullptr);
  return result;
}

// posix_spawn's attributes and file actions. posix_spawn rather than fork: it is safe with threads,
// copies no page tables of a process that maps many gigabytes, and reports a failed exec.
class SpawnPlan {
 public:
  SpawnPlan(bool detached, int input_fd, int output_fd, int error_fd) {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    flags |= detached ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes_, flags);
    posix_spawnattr_setpgroup(&attributes_, 0);
    // What this process blocks or ignores is no business of the child's.
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    if (input_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions_, input_fd, STDIN_FILENO);
    } else {
      posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    if (output_fd >= 0) posix_spawn_file_actions_adddup2(&actions_, output_fd, STDOUT_FILENO);
    if (error_fd >= 0) posix_spawn_file_actions_adddup2(&actions_, error_fd, STDERR_FILENO);
    // Descriptors that a library opened without O_CLOEXEC would keep sockets and locks alive.
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // 0, or the error's number.
  int Run(pid_t* pid, char* const* argv, char* const* environment) const {
    return posix_spawn(pid, argv[0], &actions_, &attributes_, argv, environment);
  }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

namespace fs = std::filesystem;

bool IsExecutable(const fs::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// In directories that the user did not choose, such as those above the running program, only files
// of this user or of root are trusted.
bool IsTrusted(const fs::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0);
}

}  // namespace

StatusOr<ChildProcess> ChildProcess::Spawn(const ChildOptions& options) {
  if (options.argv.empty()) return InvalidArgument("a child process needs a program");
  int log_fd = -1;
  if (!options.log_path.empty()) {
    log_fd = open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (log_fd < 0) {
      return InvalidArgument("cannot write the log ", options.log_path, ": ", std::strerror(errno));
    }
  }
  std::vector<char*> argv;
  for (const std::string& argument : options.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid = -1;
  const SpawnPlan plan(options.detached, options.input_fd,
                       options.output_fd >= 0 ? options.output_fd : log_fd,
                       options.error_fd >= 0 ? options.error_fd : log_fd);
  const int error = plan.Run(
      &pid, argv.data(), Environment(options.environment, options.only_this_environment).data());
  if (log_fd >= 0) close(log_fd);
  if (error != 0) return SpawnError(options.argv[0], error);

  // Not reaped yet, so the number is still the child's.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const Status status = SpawnError(options.argv[0] + " (no descriptor for it)", errno);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return ChildProcess(pid, pidfd);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(other.pid_),
      pidfd_(std::exchange(other.pidfd_, -1)),
      ended_(other.ended_),
      exit_status_(other.exit_status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(ended_, other.ended_);
  std::swap(exit_status_, other.exit_status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pidfd_ < 0) return;
  Signal(SIGKILL);
  // A process that even SIGKILL does not end hangs in the kernel: no more can be done.
  (void)Wait(Deadline::After(kKillPatience));
  close(pidfd_);
}

StatusOr<ExitStatus> ChildProcess::Wait(Deadline deadline) {
  while (!ended_) {
    if (pidfd_ < 0) return FailedPrecondition("process ", pid_, " was released");
    int status = 0;
    const pid_t reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_) {
      ended_ = true;
      exit_status_ = ExitStatus::FromWaitStatus(status);
      break;
    }
    if (reaped < 0 && errno == ECHILD) {
      pollfd watched{pidfd_, POLLIN, 0};
      ended_ = poll(&watched, 1, deadline.RemainingMillis()) > 0;
      if (ended_) {
        exit_status_ = ExitStatusOf(pidfd_, pid_);
        break;
      }
    }
    if (deadline.Expired()) return DeadlineExceeded("process ", pid_, " still runs");
    pollfd watched{pidfd_, POLLIN, 0};
    poll(&watched, 1, deadline.RemainingMillis());
  }
  return exit_status_;
}

void ChildProcess::Signal(int signal) {
  // By descriptor: a number could be another process's by now, were the child reaped elsewhere.
  if (pidfd_ >= 0 && !ended_) syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

StatusOr<ExitStatus> ChildProcess::WaitOrKill(Deadline patience) {
  StatusOr<ExitStatus> status = Wait(patience);
  if (status.status().code() != StatusCode::kDeadlineExceeded) return status;
  Signal(SIGKILL);
  return Wait(Deadline::After(kKillPatience));
}

StatusOr<ExitStatus> ChildProcess::Terminate(Deadline patience) {
  Signal(SIGTERM);
  return WaitOrKill(patience);
}

void ChildProcess::Release() {
  if (pidfd_ >= 0) close(pidfd_);
  pidfd_ = -1;
}

std::string FindInPath(const std::string& name) {
  const char* search_path = std::getenv("PATH");
  std::istringstream directories(search_path != nullptr ? search_path : "");
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (directory.empty()) continue;
    const fs::path candidate = fs::path(directory) / name;
    if (IsExecutable(candidate)) return candidate.string();
  }
  return "";
}

StatusOr<std::string> FindProgram(const std::string& name, const std::string& variable,
                                  const std::string& build_directory) {
  if (const char* chosen = std::getenv(variable.c_str()); chosen != nullptr && *chosen != '\0') {
    if (IsExecutable(chosen)) return std::string(chosen);
    return NotFound("$", variable, " is \"", chosen, "\", which is no executable file");
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / name;
  if (!error && IsExecutable(beside)) return beside.string();

  // Programs of the build tree lie two or three folders deep in it.
  fs::path above = self.parent_path();
  for (int level = 0; level < 4 && above.has_relative_path();
       ++level, above = above.parent_path()) {
    const fs::path built = above / build_directory / name;
    if (!error && IsExecutable(built) && IsTrusted(built)) return built.string();
  }

  if (std::string found = FindInPath(name); !found.empty()) return found;
  return NotFound("cannot find the program ", name, ": it is not beside ", self.string(),
                  ", not in PATH, and $", variable, " is not set");
}

}  // namespace lockstep
