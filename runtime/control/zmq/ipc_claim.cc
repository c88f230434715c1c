#include "runtime/control/zmq/ipc_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace lockstep::control {
namespace {

// Empty if the endpoint has no path of its own.
std::string PathOf(const std::string& endpoint) {
  constexpr char kIpc[] = "ipc://";
  if (endpoint.rfind(kIpc, 0) != 0) return "";
  const std::string path = endpoint.substr(sizeof kIpc - 1);
  return path == "*" || path.rfind('@', 0) == 0 ? "" : path;
}

std::string LockPathOf(const std::string& path) { return path + ".lock"; }

Status CannotLock(const std::string& path, int error) {
  const std::string text =
      "cannot listen on \"ipc://" + path + "\": " + LockPathOf(path) + ": " + strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(text);
    case ENAMETOOLONG:
    case EISDIR:
      return InvalidArgument(text);
    case ENOENT:
    case ENOTDIR:
      return NotFound(text);
    default:
      return Unavailable(text);
  }
}

// The process that wrote its id into the lock's file; 0 if none is there yet.
long OwnerOf(int lock_fd) {
  char text[32] = {};
  const ssize_t size = pread(lock_fd, text, sizeof text - 1, 0);
  return size > 0 ? std::strtol(text, nullptr, 10) : 0;
}

// True if `fd` is still what its path names: the last owner removes the file while it holds the
// lock, so a process that waited for that owner has locked a file that no other will ever see.
bool IsAt(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// The locked file.
StatusOr<int> Lock(const std::string& path) {
  const std::string lock_path = LockPathOf(path);
  while (true) {
    const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return CannotLock(path, errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const long owner = OwnerOf(fd);
      close(fd);
      if (error == EINTR) continue;
      if (error != EWOULDBLOCK) return CannotLock(path, error);
      return AlreadyExists("cannot listen on \"ipc://", path, "\": process ", owner,
                           " listens there (it holds ", lock_path,
                           "); stop it first, or choose another endpoint");
    }
    if (IsAt(fd, lock_path)) return fd;
    close(fd);
  }
}

}  // namespace

StatusOr<IpcClaim> IpcClaim::Take(const std::string& endpoint) {
  IpcClaim claim;
  const std::string path = PathOf(endpoint);
  if (path.empty()) return claim;
  LOCKSTEP_ASSIGN_OR_RETURN(claim.lock_fd_, Lock(path));
  claim.path_ = path;
  const std::string owner = std::to_string(getpid()) + "\n";
  // Only for the message above; without it the lock is as good.
  [[maybe_unused]] const bool noted = ftruncate(claim.lock_fd_, 0) == 0 &&
                                      pwrite(claim.lock_fd_, owner.data(), owner.size(), 0) > 0;
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode)) {
    return AlreadyExists("cannot listen on \"", endpoint,
                         "\": there is a file that is no socket; remove it, or choose another "
                         "endpoint");
  }
  return claim;
}

IpcClaim& IpcClaim::operator=(IpcClaim&& other) noexcept {
  if (this == &other) return *this;
  Release();
  path_ = std::exchange(other.path_, "");
  lock_fd_ = std::exchange(other.lock_fd_, -1);
  bound_ = std::exchange(other.bound_, false);
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

void IpcClaim::Bound() {
  struct stat socket {};
  if (path_.empty() || lstat(path_.c_str(), &socket) != 0) return;
  bound_ = true;
  device_ = socket.st_dev;
  inode_ = socket.st_ino;
}

void IpcClaim::Release() {
  if (lock_fd_ < 0) return;
  // ZeroMQ leaves the socket's file behind.
  struct stat there {};
  if (bound_ && lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ &&
      there.st_ino == inode_) {
    unlink(path_.c_str());
  }
  // Removed while it is locked, and never after: see IsAt(). A child that was forked a moment ago
  // may share the open file, so closing it would not be enough.
  if (IsAt(lock_fd_, LockPathOf(path_))) unlink(LockPathOf(path_).c_str());
  flock(lock_fd_, LOCK_UN);
  close(lock_fd_);
  lock_fd_ = -1;
}

}  // namespace lockstep::control
