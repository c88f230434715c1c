#include "services/local/temporary_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "lockstep-local-";
// A sweeper can take a directory between its creation and its lock, and only once each.
constexpr int kAttempts = 10;

std::string Base() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen == '/' ? chosen : "/tmp";
}

int OpenDirectory(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// True if `path` still is the directory that `fd` was opened at.
bool IsStill(const std::string& path, int fd) {
  struct stat by_path {};
  struct stat by_fd {};
  return lstat(path.c_str(), &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
         by_path.st_ino == by_fd.st_ino && by_path.st_dev == by_fd.st_dev;
}

// Removes directories whose owner is dead. What cannot be removed is left to the next sweep.
void Sweep(const std::string& base) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (entry->path().filename().string().rfind(kPrefix, 0) != 0) continue;
    const int fd = OpenDirectory(path);
    if (fd < 0) continue;
    struct stat info {};
    if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
    close(fd);
  }
}

}  // namespace

StatusOr<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Create() {
  const std::string base = Base();
  Sweep(base);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = base + "/" + kPrefix + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return PermissionDenied("cannot make a directory in ", base, ": ", std::strerror(errno),
                              "; set TMPDIR to one that you may write to");
    }
    const int fd = OpenDirectory(path);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && IsStill(path, fd)) {
      return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(std::move(path), fd));
    }
    close(fd);
  }
  return Unavailable("directories in ", base, " are removed while they are made");
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_fd_);
}

}  // namespace lockstep::local
