#include "runtime/base/exit_status.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "runtime/base/proc_stat.h"

namespace lockstep {
namespace {

// linux/pidfd.h of Linux 6.15, which is younger than the headers of the distributions.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  uint32_t pid = 0;
  uint32_t tgid = 0;
  uint32_t ppid = 0;
  uint32_t user_and_group_ids[8] = {};
  int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr uint64_t kInfoExit = uint64_t{1} << 3;
#define LOCKSTEP_PIDFD_GET_INFO _IOWR(0xFF, 11, PidfdInfo)

// Known once the process has been reaped.
bool ReadFromDescriptor(int pidfd, int* status) {
  PidfdInfo info;
  info.mask = kInfoExit;
  if (ioctl(pidfd, LOCKSTEP_PIDFD_GET_INFO, &info) != 0 || (info.mask & kInfoExit) == 0) {
    return false;
  }
  *status = info.exit_code;
  return true;
}

// Known until the process is reaped.
bool ReadFromProc(pid_t pid, int* status) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat.has_value() || stat->state != 'Z') return false;
  if (stat->exit_status == 0 && !stat->may_see) return false;
  *status = stat->exit_status;
  return true;
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (!known) return "ended, nobody knows how";
  if (signal == 0) return "ended with exit code " + std::to_string(code);
  return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ExitStatus ExitStatus::FromWaitStatus(int status) {
  ExitStatus exit;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  return exit;
}

ExitStatus ExitStatusOf(int pidfd, pid_t pid) {
  int status = 0;
  // The third time for a process that was reaped between the first two.
  if (ReadFromDescriptor(pidfd, &status) || ReadFromProc(pid, &status) ||
      ReadFromDescriptor(pidfd, &status)) {
    return ExitStatus::FromWaitStatus(status);
  }
  ExitStatus unknown;
  unknown.known = false;
  return unknown;
}

}  // namespace lockstep
