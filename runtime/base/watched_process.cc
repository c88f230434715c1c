#include "runtime/base/watched_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
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

bool WatchedProcess::HasEnded() const {
  pollfd entry{fd_, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace lockstep
