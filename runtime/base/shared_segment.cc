#include "runtime/base/shared_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/quantity.h"

namespace lockstep {
namespace {

constexpr char kDirectory[] = "/dev/shm/";

std::string PathOf(const std::string& name) { return kDirectory + name; }

Status SystemError(const std::string& what, int error) {
  const std::string text = what + ": " + std::strerror(error);
  switch (error) {
    case ENOSPC:
    case ENOMEM:
    case EFBIG:
      return ResourceExhausted(text,
                               "; enlarge /dev/shm, or lower what arenas may take (arena_bytes)");
    case ENOENT:
      return NotFound(text);
    case EACCES:
    case EPERM:
      return PermissionDenied(text);
    default:
      return Internal(text);
  }
}

StatusOr<std::byte*> Map(const std::string& name, int fd, size_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return SystemError("cannot map shared memory " + name, errno);
  // Huge pages make first touch about ten times cheaper where the kernel grants them for shared
  // memory; where it does not, this changes nothing.
  madvise(data, size_bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

// Creates the file and takes the lock that tells sweepers that its owner lives. A sweeper that
// comes between the two takes the file for a dead owner's and removes the name; what is left is a
// file that no peer can find, so another one is made.
StatusOr<int> CreateLocked(const std::string& path) {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
      if (errno == EEXIST) {
        return AlreadyExists("shared memory ", path, " exists already; its owner may still run");
      }
      return SystemError("cannot create shared memory " + path, errno);
    }
    // Waits for a sweeper, which keeps the lock for a moment only.
    int locked = 0;
    do {
      locked = flock(fd, LOCK_EX);
    } while (locked != 0 && errno == EINTR);
    struct stat info {};
    if (locked != 0 || fstat(fd, &info) != 0) {
      const Status status = SystemError("cannot lock shared memory " + path, errno);
      unlink(path.c_str());
      close(fd);
      return status;
    }
    if (info.st_nlink > 0) return fd;
    close(fd);
  }
  return Unavailable("shared memory ", path, " was swept whenever it was created; try again");
}

}  // namespace

SharedSegment::SharedSegment(std::string name, int fd, std::byte* data, size_t capacity_bytes,
                             bool owner)
    : name_(std::move(name)),
      fd_(fd),
      data_(data),
      capacity_bytes_(capacity_bytes),
      owner_(owner) {}

SharedSegment::~SharedSegment() {
  munmap(data_, capacity_bytes_);
  // If the name was removed before, it may be another segment's by now.
  struct stat info {};
  if (owner_ && fstat(fd_, &info) == 0 && info.st_nlink > 0) unlink(PathOf(name_).c_str());
  close(fd_);
}

StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(const std::string& name,
                                                               size_t capacity_bytes) {
  if (name.rfind(kNamePrefix, 0) != 0 || name.find('/') != std::string::npos) {
    return InvalidArgument("shared memory is named \"", kNamePrefix,
                           "...\" without slashes, not \"", name, "\"");
  }
  if (capacity_bytes == 0) return InvalidArgument("shared memory ", name, " has no size");
  const std::string path = PathOf(name);
  LOCKSTEP_ASSIGN_OR_RETURN(const int fd, CreateLocked(path));
  Status status;
  if (ftruncate(fd, static_cast<off_t>(capacity_bytes)) != 0) {
    status = SystemError("cannot size shared memory " + path, errno);
  } else {
    StatusOr<std::byte*> data = Map(path, fd, capacity_bytes);
    if (data.ok()) {
      return std::unique_ptr<SharedSegment>(
          new SharedSegment(name, fd, *data, capacity_bytes, /*owner=*/true));
    }
    status = data.status();
  }
  unlink(path.c_str());
  close(fd);
  return status;
}

StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(const std::string& name) {
  if (name.rfind(kNamePrefix, 0) != 0 || name.find('/') != std::string::npos) {
    return InvalidArgument("\"", name, "\" is not the name of Lockstep's shared memory");
  }
  const std::string path = PathOf(name);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return SystemError("cannot open shared memory " + path, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size <= 0) {
    close(fd);
    return FailedPrecondition("shared memory ", path, " is not ready or not a segment");
  }
  const size_t size_bytes = static_cast<size_t>(info.st_size);
  StatusOr<std::byte*> data = Map(path, fd, size_bytes);
  if (!data.ok()) {
    close(fd);
    return data.status();
  }
  return std::unique_ptr<SharedSegment>(
      new SharedSegment(name, fd, *data, size_bytes, /*owner=*/false));
}

int SharedSegment::Sweep(const std::string& prefix) {
  if (prefix.rfind(kNamePrefix, 0) != 0) return 0;
  DIR* directory = opendir(kDirectory);
  if (directory == nullptr) return 0;
  int removed = 0;
  while (const dirent* entry = readdir(directory)) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    const std::string path = PathOf(entry->d_name);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    // A file without a name was removed meanwhile; the name may be another file's by now.
    struct stat info {};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0 &&
        unlink(path.c_str()) == 0) {
      ++removed;
    }
    close(fd);
  }
  closedir(directory);
  return removed;
}

bool SharedSegment::OwnerLives() const {
  // The descriptor's own description of the open file may be the owner's, whose locks are its own:
  // only another one can ask. By way of the descriptor, because the name may be gone.
  const std::string path = "/proc/self/fd/" + std::to_string(fd_);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return true;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return locked;
}

bool SharedSegment::IsOurs() const {
  struct stat file = {};
  return fstat(fd_, &file) == 0 && file.st_uid == geteuid();
}

Status SharedSegment::Reserve(size_t size_bytes) {
  if (size_bytes <= reserved_bytes_) return OkStatus();
  if (size_bytes > capacity_bytes_) {
    return ResourceExhausted("shared memory ", name_, " holds at most ",
                             RoundedSize(capacity_bytes_), ", ", RoundedSize(size_bytes),
                             " are wanted");
  }
  const auto from = static_cast<off_t>(reserved_bytes_);
  const auto length = static_cast<off_t>(size_bytes - reserved_bytes_);
  // posix_fallocate returns the error number instead of setting errno.
  int error = 0;
  do {
    error = posix_fallocate(fd_, from, length);
  } while (error == EINTR);
  if (error != 0) {
    return SystemError(
        "cannot reserve " + RoundedSize(size_bytes) + " of shared memory " + PathOf(name_), error);
  }
  reserved_bytes_ = size_bytes;
  return OkStatus();
}

}  // namespace lockstep
