// The right to listen at the path of an ipc:// endpoint.
//
// ZeroMQ removes whatever file it finds at the path before it binds, so a second listener would
// silently take the first one's clients. A lock on a file beside the socket (PATH.lock) tells a
// listener that lives from the socket that a dead one left behind.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace lockstep::control {

// Threads: one at a time. Ownership: the socket's file and the lock's are removed with this object,
// unless another process has put another file in the socket's place.
class IpcClaim {
 public:
  // Claims the path of `endpoint`. An endpoint without one (another transport, a path that ZeroMQ
  // chooses, an abstract name, which the kernel guards) needs none: the claim is then empty.
  // kAlreadyExists if a live listener has it, or if a file that is no socket is there;
  // kPermissionDenied, kNotFound or kInvalidArgument if the lock's file cannot be made.
  static StatusOr<IpcClaim> Take(const std::string& endpoint);

  IpcClaim() = default;
  IpcClaim(IpcClaim&& other) noexcept { *this = std::move(other); }
  IpcClaim& operator=(IpcClaim&& other) noexcept;
  ~IpcClaim() { Release(); }

  // Remembers the socket's file, once it is bound, so that it is known as ours later.
  void Bound();

 private:
  void Release();

  std::string path_;  // of the socket; empty: nothing is claimed
  int lock_fd_ = -1;
  bool bound_ = false;
  dev_t device_ = 0;  // which file the socket is
  ino_t inode_ = 0;
};

}  // namespace lockstep::control
