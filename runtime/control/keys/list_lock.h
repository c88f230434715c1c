// Makes those who change a list of allowed keys wait for one another.
#pragma once

#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::control {

// Holds the lock file beside a list, "LIST.lock", until it is destroyed. The file stays: it is made
// with mode 0600, so that nobody but its owner and root can hold it.
//
// Threads: one at a time.
class ListLock {
 public:
  // Waits for whoever has it. `list` need not exist; symbolic links are followed, so that each name
  // of a list has the same lock. kDeadlineExceeded; kPermissionDenied: the lock file is not ours,
  // or open to others; the errors of FileError().
  static StatusOr<ListLock> Take(const std::string& list, Deadline deadline);

  ListLock(ListLock&& other) noexcept;
  ListLock& operator=(ListLock&&) = delete;
  ~ListLock();

 private:
  explicit ListLock(int fd) : fd_(fd) {}

  int fd_;  // -1: moved from
};

}  // namespace lockstep::control
