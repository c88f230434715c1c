// One of the few logins at a host that may be under way at a time: sshd turns some away once there
// are ten (its MaxStartups), by chance, and the workers of a host come all at once.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::remote {

// Threads: one at a time. A slot is a file that its user locks: the kernel frees that of a process
// that is killed.
class LoginSlot {
 public:
  // Empty `path`: no slot is needed.
  static StatusOr<LoginSlot> Open(const std::string& path);

  LoginSlot(LoginSlot&& other) noexcept;
  LoginSlot& operator=(LoginSlot&&) = delete;
  ~LoginSlot();

  // True if it is ours from now on; false if another process has it.
  bool TryTake();
  // Lets others have it, for good.
  void Release();
  bool released() const { return fd_ < 0; }

 private:
  explicit LoginSlot(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::remote
