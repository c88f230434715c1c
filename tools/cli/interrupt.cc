#include "tools/cli/interrupt.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace lockstep::cli {
namespace {

sigset_t InterruptSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

StatusOr<InterruptGuard> InterruptGuard::Make() {
  const sigset_t set = InterruptSet();
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return ResourceExhausted("cannot watch for ^C: ", std::strerror(errno));
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return InterruptGuard(fd);
}

InterruptGuard::InterruptGuard(InterruptGuard&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

InterruptGuard::~InterruptGuard() {
  if (fd_ < 0) return;
  close(fd_);
  LetThrough();
}

void InterruptGuard::LetThrough() {
  const sigset_t set = InterruptSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool InterruptGuard::Take() {
  signalfd_siginfo info;
  bool any = false;
  while (read(fd_, &info, sizeof(info)) == sizeof(info)) any = true;
  return any;
}

}  // namespace lockstep::cli
