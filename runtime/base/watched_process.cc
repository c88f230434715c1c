#include "runtime/base/watched_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/proc_stat.h"

namespace lockstep {

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
