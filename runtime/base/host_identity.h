// Which host this process runs on, as it tells its peers.
//
// Threads: any.
#pragma once

#include <string>

namespace lockstep {

struct HostIdentity {
  std::string name;  // for people
  // Equal for two processes that see the same process ids: the kernel's boot id and the PID
  // namespace.
  std::string id;
  // Equal for all processes of one kernel, containers' too: they share its GPUs.
  std::string machine;
};
const HostIdentity& ThisHost();

// A short name of a process for error messages and logs: "host:pid".
std::string ProcessLabel(const std::string& host, int pid);

}  // namespace lockstep
