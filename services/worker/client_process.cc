#include "services/worker/client_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::worker {

StatusOr<ClientProcess> ClientProcess::Watch(int pid) {
  if (pid <= 0) return InvalidArgument("no process has the number ", pid);
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) return ClientProcess(fd);
  if (errno == ESRCH) return NotFound("process ", pid, " has ended");
  return Unavailable("process ", pid, " cannot be watched: ", std::strerror(errno));
}

ClientProcess::ClientProcess(ClientProcess&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ClientProcess& ClientProcess::operator=(ClientProcess&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ClientProcess::~ClientProcess() {
  if (fd_ >= 0) close(fd_);
}

bool ClientProcess::HasEnded() const {
  pollfd entry{fd_, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace lockstep::worker
