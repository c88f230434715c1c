#include "runtime/base/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

void GiveWay() {
  // Linux's nice value is a thread's own. Against one of 0, 10 has a weight of 110 to 1024.
  constexpr int kNice = 10;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (getpriority(PRIO_PROCESS, thread) < kNice) (void)setpriority(PRIO_PROCESS, thread, kNice);
  // Takes the processor from nobody when it wakes: it is not in a hurry.
  const sched_param none = {};
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace lockstep
