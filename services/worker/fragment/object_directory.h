// Compiled fragments on disk, in a directory that all workers of a host or pod share.
//
// What is in a file runs in this process. So the directory, every one that leads to it, and the
// file must belong to root or to this process's user, and no other user may write to them
// (runtime/base/files.h); a file also names its key, and has a checksum. One that is cut off,
// damaged or another user's is removed, and the log says so: it is compiled again.
//
// Files appear whole (they are written beside, and renamed), so any number of processes may read
// and write at once. What was not used for longest goes when there is too much.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/fragment/compiler_program.h"
#include "runtime/fragment/object_key.h"

namespace lockstep::worker {

// While this lives, no other process or thread has the lock of the same key in the same directory.
// The kernel releases it when its process ends, however that happens.
class ObjectLock {
 public:
  explicit ObjectLock(int fd) : fd_(fd) {}
  ObjectLock(ObjectLock&& other) noexcept;
  ObjectLock& operator=(ObjectLock&& other) noexcept;
  ~ObjectLock();

  // Another had it when it was asked for.
  bool had_to_wait() const { return had_to_wait_; }

 private:
  friend class ObjectDirectory;

  int fd_;
  bool had_to_wait_ = false;
};

// Threads: any. Ownership: a descriptor of the directory.
class ObjectDirectory {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{1} << 30;

  // Makes the directory, for its owner alone, if it is not there; not what leads to it.
  // kPermissionDenied: it is not to be trusted; the errors of FileError(), if it cannot be made.
  static StatusOr<ObjectDirectory> Open(std::string path, uint64_t max_bytes = kDefaultMaxBytes);
  ObjectDirectory(ObjectDirectory&& other) noexcept;
  ObjectDirectory& operator=(ObjectDirectory&& other) noexcept;
  ~ObjectDirectory();

  // What Store() was given under this key. None: it is not there, or not to be used; then the log
  // says why.
  std::optional<std::string> Load(const fragment::ObjectKey& key) const;
  // Removes what was not used for longest, if need be. Bytes that are too many by themselves are
  // not stored, which is no error.
  Status Store(const fragment::ObjectKey& key, const std::string& bytes) const;

  // Waits for it. kDeadlineExceeded, kAborted: it was given up; others: the file system has no
  // locks.
  StatusOr<ObjectLock> Lock(const fragment::ObjectKey& key, fragment::Patience patience) const;

  const std::string& path() const { return path_; }

 private:
  ObjectDirectory(std::string path, uint64_t max_bytes, int fd)
      : path_(std::move(path)), max_bytes_(max_bytes), fd_(fd) {}

  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  Status CheckItself() const;
  StatusOr<std::string> Read(const fragment::ObjectKey& key) const;
  Status Write(const std::string& name, const std::string& content) const;
  void Trim(const std::string& kept) const;

  std::string path_;
  uint64_t max_bytes_;
  int fd_;
};

}  // namespace lockstep::worker
