// A directory for one process's sockets and logs, which no other user may enter.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::local {

// Threads: immutable. Ownership: the directory and all in it are removed when the object is
// destroyed.
class TemporaryDirectory {
 public:
  // ${TMPDIR:-/tmp}/lockstep-local-XXXXXX, mode 0700. Also removes such directories of this user
  // whose process was killed: a live one holds a file lock on its directory.
  static StatusOr<std::unique_ptr<TemporaryDirectory>> Create();

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  const std::string path_;
  const int lock_fd_;
};

}  // namespace lockstep::local
