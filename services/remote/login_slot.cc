#include "services/remote/login_slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::remote {

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
