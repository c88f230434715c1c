#include "runtime/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep {

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  // The kernel asks the same question before it follows this link as before it tells an exit code
  // (ptrace(2), PTRACE_MODE_READ_FSCREDS). There is no link any more in a process that has ended.
  char link[1];
  const bool may_see = readlink((directory + "/exe").c_str(), link, sizeof link) >= 0 ||
                       (errno != EACCES && errno != EPERM);
  const int fd = open((directory + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[2048];
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  // The program's name, in parentheses, may hold anything.
  const char* after_name = std::strrchr(text, ')');
  if (after_name == nullptr) return std::nullopt;
  std::istringstream fields(after_name + 1);
  constexpr int kState = 3;
  constexpr int kExitCode = 52;
  ProcStat stat;
  fields >> stat.state;
  std::string field;
  for (int i = kState + 1; i <= kExitCode && fields >> field; ++i) {
    if (i == kExitCode) stat.exit_status = std::stoi(field);
  }
  stat.may_see = may_see;
  return stat;
}

namespace {

// linux/pidfd.h of Linux 6.15, which is younger than the headers of the distributions.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  uint32_t pid = 0;
  uint32_t tgid = 0;
  uint32_t ppid = 0;
  uint32_t user_and_group_ids[8] = {};
  int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr uint64_t kInfoExit = uint64_t{1} << 3;
#define LOCKSTEP_PIDFD_GET_INFO _IOWR(0xFF, 11, PidfdInfo)

// Known once the process has been reaped.
bool ReadFromDescriptor(int pidfd, int* status) {
  PidfdInfo info;
  info.mask = kInfoExit;
  if (ioctl(pidfd, LOCKSTEP_PIDFD_GET_INFO, &info) != 0 || (info.mask & kInfoExit) == 0) {
    return false;
  }
  *status = info.exit_code;
  return true;
}

// Known until the process is reaped.
bool ReadFromProc(pid_t pid, int* status) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat.has_value() || stat->state != 'Z') return false;
  if (stat->exit_status == 0 && !stat->may_see) return false;
  *status = stat->exit_status;
  return true;
}

}  // namespace

std::optional<uint64_t> CountOomKills(const std::string& vmstat) {
  std::ifstream in(vmstat);
  std::string name;
  uint64_t count = 0;
  while (in >> name >> count) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

std::string ExitStatus::Describe() const {
  if (!known) return "ended in an unknown way";
  if (signal == 0) return "ended with exit code " + std::to_string(code);
  return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ExitStatus ExitStatus::FromWaitStatus(int status) {
  ExitStatus exit;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  return exit;
}

ExitStatus ExitStatusOf(int pidfd, pid_t pid) {
  int status = 0;
  // The third time for a process that was reaped between the first two.
  if (ReadFromDescriptor(pidfd, &status) || ReadFromProc(pid, &status) ||
      ReadFromDescriptor(pidfd, &status)) {
    return ExitStatus::FromWaitStatus(status);
  }
  ExitStatus unknown;
  unknown.known = false;
  return unknown;
}

StatusOr<WatchedProcess> WatchedProcess::Watch(pid_t pid) {
  if (pid <= 0) return InvalidArgument("no process has the number ", pid);
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) return WatchedProcess(fd, pid);
  if (errno == ESRCH) return NotFound("process ", pid, " has ended");
  return Unavailable("process ", pid, " cannot be watched: ", std::strerror(errno));
}

WatchedProcess::WatchedProcess(WatchedProcess&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), pid_(other.pid_) {}

WatchedProcess& WatchedProcess::operator=(WatchedProcess&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(pid_, other.pid_);
  return *this;
}

WatchedProcess::~WatchedProcess() {
  if (fd_ >= 0) close(fd_);
}

bool WatchedProcess::IsStopped() const {
  const std::optional<ProcStat> stat = ReadProcStat(pid_);
  // While it has not ended, the number is its own.
  return stat.has_value() && (stat->state == 'T' || stat->state == 't') && !HasEnded();
}

StatusOr<bool> WatchedProcess::Maps(std::string_view file) const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/maps";
  errno = 0;
  std::ifstream maps(path);
  // A file whose name is gone is shown with this behind it.
  constexpr std::string_view kRemoved = " (deleted)";
  const std::string ending = "/" + std::string(file);
  bool found = false;
  std::string line;
  while (!found && std::getline(maps, line)) {
    if (line.ends_with(kRemoved)) line.resize(line.size() - kRemoved.size());
    found = line.ends_with(ending);
  }
  const int error = errno;
  // What was read is its own only if it still has the number.
  if (HasEnded()) return NotFound("process ", pid_, " has ended");
  if (!found && !maps.eof()) {
    return PermissionDenied("cannot read ", path, ": ", std::strerror(error));
  }
  return found;
}

bool WatchedProcess::HasEnded() const {
  pollfd entry{fd_, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace lockstep
