#include "runtime/control/keys/list_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/base/file_error.h"
#include "runtime/base/trusted_path.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLookAgain = 20ms;

// Whoever may open the file may keep it locked.
Status CheckLockFile(int fd, const std::string& path) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return FileError("cannot look at", path, errno);
  if (S_ISREG(file.st_mode) && IsTrustedOwner(file.st_uid) && (file.st_mode & 0077) == 0) {
    return OkStatus();
  }
  return PermissionDenied("others than this process's user could hold the lock file ", path,
                          "; `rm ", path, "` when no `lockstep keys` runs: it is made again");
}

}  // namespace

ListLock::ListLock(ListLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ListLock::~ListLock() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<ListLock> ListLock::Take(const std::string& list, Deadline deadline) {
  const std::string path = RealPath(list) + ".lock";
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode_t{0600});
  if (fd < 0) return FileError("cannot open the lock file", path, errno);
  ListLock lock(fd);
  LOCKSTEP_RETURN_IF_ERROR(CheckLockFile(fd, path));
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError("cannot lock", path, errno);
    if (deadline.Expired()) {
      return DeadlineExceeded("another process changes ", list, " and has not finished: it holds ",
                              path, "; `fuser ", path, "` says which");
    }
    std::this_thread::sleep_for(
        std::min<Deadline::Clock::duration>(kLookAgain, deadline.Remaining()));
  }
  return lock;
}

}  // namespace lockstep::control
