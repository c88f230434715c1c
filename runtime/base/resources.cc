#include "runtime/base/resources.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep {

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  // RLIM_INFINITY is the largest number.
  const rlim_t raised = RaisedDescriptorLimit(limit.rlim_cur, limit.rlim_max);
  if (raised == limit.rlim_cur) return;
  limit.rlim_cur = raised;
  setrlimit(RLIMIT_NOFILE, &limit);  // or else it stays, which is no reason to end
}

bool DescriptorReserve::Release() {
  const bool held_some = !held_.empty();
  for (const int fd : held_) close(fd);
  held_.clear();
  return held_some;
}

void DescriptorReserve::Refill() {
  while (held_.size() < count_) {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    held_.push_back(fd);
  }
}

bool DescriptorReserve::IsExhausted(int error) { return error == EMFILE || error == ENFILE; }

void LowerThreadPriority() {
  // Linux's nice value is a thread's own. Against one of 0, 10 has a weight of 110 to 1024.
  constexpr int kNice = 10;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (getpriority(PRIO_PROCESS, thread) < kNice) (void)setpriority(PRIO_PROCESS, thread, kNice);
  // Takes the processor from no other thread when it wakes: it is not in a hurry.
  const sched_param none = {};
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace lockstep
