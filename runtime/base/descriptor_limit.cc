#include "runtime/base/descriptor_limit.h"

#include <sys/resource.h>

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

}  // namespace lockstep
