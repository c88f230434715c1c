#include "services/controller/world/worker_end.h"

#include <signal.h>

namespace lockstep::controller {
namespace {

std::string HintAtKill(std::optional<uint64_t> oom_kills) {
  if (!oom_kills.has_value()) return "the kernel sends this signal for lack of memory, too";
  if (*oom_kills == 0)
    return "the kernel has killed no process of this host for lack of memory since it joined";
  return "the kernel has killed " + std::to_string(*oom_kills) +
         (*oom_kills == 1 ? " process" : " processes") +
         " of this host for lack of memory since it joined, probably this one: give it more memory,"
         " or lower arena_bytes";
}

}  // namespace

std::string DescribeEnd(int pid, const ExitStatus& status) {
  return "its process " + std::to_string(pid) + " " +
         (status.known ? status.Describe() : "has ended");
}

std::string HintAtCause(const ExitStatus& status, std::optional<uint64_t> oom_kills) {
  if (!status.known) return "";
  switch (status.signal) {
    case SIGKILL:
      return HintAtKill(oom_kills);
    case SIGABRT:
      return "an exception that no code catches, or a failed assertion, ends a process so";
    case SIGBUS:
      return "a file that it has mapped was cut short: a module that was written over while it was"
             " loaded (replace it by `mv` or `install`), or /dev/shm is full";
    default:
      return "";
  }
}

std::string WhereItsLogIs(Rank rank, const std::string& cluster) {
  const std::string name = cluster == "lockstep" ? "" : " --name " + cluster;
  return "its log: `lockstep logs --rank " + std::to_string(rank) + name +
         "` if `lockstep up` has started it, else `journalctl -u UNIT`, `docker logs CONTAINER` or"
         " `kubectl logs --previous POD`";
}

}  // namespace lockstep::controller
