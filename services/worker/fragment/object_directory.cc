#include "services/worker/fragment/object_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/bulk_memory.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/fragment/compile_codec.h"

namespace lockstep::worker {
namespace {

// A file: this, the bytes, and a checksum over both. Numbers as this machine writes them, since
// what is compiled is for it as well.
struct FileHeader {
  std::array<char, 8> magic = {'L', 'K', 'S', 'T', 'F', 'R', 'G', '1'};
  uint64_t key_high = 0;
  uint64_t key_low = 0;
  uint64_t size_bytes = 0;
};
static_assert(sizeof(FileHeader) == 32);

constexpr std::string_view kEnding = ".object";
constexpr std::string_view kUnfinishedEnding = ".new";
constexpr const char* kLockName = "lock";
constexpr size_t kMostFileBytes = sizeof(FileHeader) + fragment::kMaxAnswerBytes + sizeof(uint64_t);
// What a file takes at least.
constexpr uint64_t kBlockBytes = 4096;

std::string FileNameOf(const fragment::ObjectKey& key) {
  return key.ToString() + std::string(kEnding);
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string Framed(const fragment::ObjectKey& key, const std::string& bytes) {
  FileHeader header;
  header.key_high = key.high;
  header.key_low = key.low;
  header.size_bytes = bytes.size();
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content += bytes;
  const uint64_t checksum = Checksum(content.data(), content.size());
  return content.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

// The bytes of what Framed() has made for this key; none: it is something else.
std::optional<std::string> Unframed(const fragment::ObjectKey& key, const std::string& content) {
  FileHeader expected;
  FileHeader header;
  uint64_t checksum = 0;
  if (content.size() < sizeof header + sizeof checksum) return std::nullopt;
  const size_t checked = content.size() - sizeof checksum;
  std::memcpy(&header, content.data(), sizeof header);
  std::memcpy(&checksum, content.data() + checked, sizeof checksum);
  if (header.magic != expected.magic || header.key_high != key.high || header.key_low != key.low ||
      header.size_bytes != checked - sizeof header ||
      checksum != Checksum(content.data(), checked)) {
    return std::nullopt;
  }
  return content.substr(sizeof header, checked - sizeof header);
}

StatusOr<std::string> ReadWhole(int fd, size_t size, const std::string& path) {
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, content.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot read", path, errno);
    if (count == 0) break;  // it was cut off since it was looked at
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return content;
}

struct ListedFile {
  std::string name;
  timespec used{};
  uint64_t bytes = 0;
};

std::vector<ListedFile> List(int directory_fd) {
  std::vector<ListedFile> files;
  // A descriptor of its own, because reading moves it.
  const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const directory = fd < 0 ? nullptr : fdopendir(fd);
  if (directory == nullptr) {
    if (fd >= 0) close(fd);
    return files;
  }
  while (const dirent* const entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kEnding) && !name.ends_with(kUnfinishedEnding)) continue;
    struct stat file {};
    if (fstatat(directory_fd, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const auto blocks = (static_cast<uint64_t>(file.st_size) + kBlockBytes - 1) / kBlockBytes;
    files.push_back({std::string(name), file.st_mtim, std::max<uint64_t>(blocks, 1) * kBlockBytes});
  }
  closedir(directory);
  return files;
}

}  // namespace

ObjectLock::ObjectLock(ObjectLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), had_to_wait_(other.had_to_wait_) {}
ObjectLock& ObjectLock::operator=(ObjectLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(had_to_wait_, other.had_to_wait_);
  return *this;
}
ObjectLock::~ObjectLock() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<ObjectDirectory> ObjectDirectory::Open(std::string path, uint64_t max_bytes) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("cannot make the directory", path, errno);
  }
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open the directory", path, errno);
  ObjectDirectory directory(std::move(path), max_bytes, fd);
  // Later, the descriptor is this directory, whatever is in its place.
  LOCKSTEP_RETURN_IF_ERROR(CheckDirectoriesTo(directory.path_));
  LOCKSTEP_RETURN_IF_ERROR(directory.CheckItself());
  return directory;
}

ObjectDirectory::ObjectDirectory(ObjectDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      max_bytes_(other.max_bytes_),
      fd_(std::exchange(other.fd_, -1)) {}
ObjectDirectory& ObjectDirectory::operator=(ObjectDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(max_bytes_, other.max_bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}
ObjectDirectory::~ObjectDirectory() {
  if (fd_ >= 0) close(fd_);
}

Status ObjectDirectory::CheckItself() const {
  struct stat directory {};
  if (fstat(fd_, &directory) != 0) return FileError("cannot look at", path_, errno);
  return CheckTrustedFile(path_, directory);
}

std::optional<std::string> ObjectDirectory::Load(const fragment::ObjectKey& key) const {
  const auto warn = [](const Status& why) {
    log::Warn("a compiled fragment is not used, and compiled again: ", Message(why));
  };
  if (const Status trusted = CheckItself(); !trusted.ok()) {
    warn(trusted);
    return std::nullopt;
  }
  StatusOr<std::string> bytes = Read(key);
  if (bytes.ok()) return *std::move(bytes);
  const StatusCode code = bytes.status().code();
  if (code != StatusCode::kNotFound) warn(bytes.status());
  // Nobody needs to look at it again. If it has been replaced by a good one since, that is lost.
  if (code == StatusCode::kDataLoss || code == StatusCode::kPermissionDenied) {
    unlinkat(fd_, FileNameOf(key).c_str(), 0);
  }
  return std::nullopt;
}

StatusOr<std::string> ObjectDirectory::Read(const fragment::ObjectKey& key) const {
  const std::string name = FileNameOf(key);
  const std::string path = PathOf(name);
  // A pipe would be waited for.
  const OpenFile file(openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.fd() < 0) return FileError("cannot open", path, errno);
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return FileError("cannot look at", path, errno);
  if (!S_ISREG(info.st_mode)) return PermissionDenied(path, " is no regular file");
  LOCKSTEP_RETURN_IF_ERROR(CheckTrustedFile(path, info));
  const auto size = static_cast<size_t>(info.st_size);
  if (size > kMostFileBytes) return DataLoss(path, " is too large: ", size, " bytes");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string content, ReadWhole(file.fd(), size, path));
  std::optional<std::string> bytes = Unframed(key, content);
  if (!bytes.has_value()) {
    return DataLoss(path, " is damaged, or not what its name says (", content.size(), " bytes)");
  }
  // It was used now. Where it is another's, it may not be said.
  futimens(file.fd(), nullptr);
  return *std::move(bytes);
}

Status ObjectDirectory::Store(const fragment::ObjectKey& key, const std::string& bytes) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckItself());
  const std::string content = Framed(key, bytes);
  if (content.size() > max_bytes_ || content.size() > kMostFileBytes) return OkStatus();
  const std::string name = FileNameOf(key);
  // Of its own, so that two writers do not write into one file.
  const std::string unfinished =
      key.ToString() + "." + RandomHex(8) + std::string(kUnfinishedEnding);
  Status status = Write(unfinished, content);
  if (status.ok() && renameat(fd_, unfinished.c_str(), fd_, name.c_str()) != 0) {
    status = FileError("cannot rename " + PathOf(unfinished) + " to", PathOf(name), errno);
  }
  if (!status.ok()) unlinkat(fd_, unfinished.c_str(), 0);
  Trim(name);
  return status;
}

Status ObjectDirectory::Write(const std::string& name, const std::string& content) const {
  const OpenFile file(
      openat(fd_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd() < 0) return FileError("cannot make", PathOf(name), errno);
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = write(file.fd(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot write", PathOf(name), errno);
    done += static_cast<size_t>(count);
  }
  // Not synced: what a crash of the machine loses is noticed by its checksum.
  return OkStatus();
}

void ObjectDirectory::Trim(const std::string& kept) const {
  std::vector<ListedFile> files = List(fd_);
  uint64_t bytes = 0;
  for (const ListedFile& file : files) bytes += file.bytes;
  if (bytes <= max_bytes_) return;
  std::sort(files.begin(), files.end(), [](const ListedFile& a, const ListedFile& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) <
           std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const ListedFile& file : files) {
    if (bytes <= max_bytes_) return;
    if (file.name == kept) continue;
    // Another process may have been faster.
    unlinkat(fd_, file.name.c_str(), 0);
    bytes -= file.bytes;
  }
}

// One byte of one file for each key: files of their own would have to be removed, which cannot be
// done without a race. The lock belongs to what open() gave (fcntl(2), "open file description
// locks"), so that threads exclude each other as processes do.
StatusOr<ObjectLock> ObjectDirectory::Lock(const fragment::ObjectKey& key,
                                           fragment::Patience patience) const {
  const int fd = openat(fd_, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("cannot open", PathOf(kLockName), errno);
  ObjectLock lock(fd);
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = static_cast<off_t>(key.low >> 2);
  wanted.l_len = 1;
  std::chrono::milliseconds pause{1};
  constexpr std::chrono::milliseconds kLongestPause{16};
  while (fcntl(fd, F_OFD_SETLK, &wanted) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EACCES) {
      return FileError("cannot lock", PathOf(kLockName), errno);
    }
    lock.had_to_wait_ = true;
    if (patience.deadline.Expired()) {
      return DeadlineExceeded("another process has been compiling the same fragment for too long");
    }
    // The kernel tells nobody when a lock is released, and waiting in it knows no deadline.
    pollfd given_up{patience.give_up_fd, POLLIN, 0};
    const auto longest = std::min<int64_t>(pause.count(), patience.deadline.RemainingMillis());
    if (poll(&given_up, 1, static_cast<int>(longest)) > 0)
      return Aborted("was given up while another process compiled it");
    pause = std::min(2 * pause, kLongestPause);
  }
  return lock;
}

}  // namespace lockstep::worker
