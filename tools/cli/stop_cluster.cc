#include "tools/cli/stop_cluster.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskPatience = 2s;
constexpr auto kSignalPatience = 2s;
// They are no children of ours: there is nothing to wait on but the process table.
constexpr auto kLook = 2ms;

// Sends `signal` if the process is still the recorded one. The descriptor pins it down, so that the
// id cannot become another process's between the look and the signal.
void Signal(const ProcessRecord& process, int signal) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) return;
  if (process.IsAlive()) syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
  close(fd);
}

// True if all have ended by `deadline`.
bool WaitForAll(const ClusterRecord& record, Deadline deadline) {
  while (record.IsAlive()) {
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

}  // namespace

Status StopCluster(const ClusterRecord& record, std::chrono::milliseconds patience,
                   std::string* forced) {
  forced->clear();
  if (!record.processes.empty() && record.processes.front().IsAlive()) {
    const Status asked =
        ShutdownCluster(record.controller, "lockstep down",
                        std::min<std::chrono::milliseconds>(patience, kAskPatience));
    if (asked.ok()) WaitForAll(record, Deadline::After(patience));
  }
  for (const ProcessRecord& process : record.processes) {
    if (!process.IsAlive()) continue;
    *forced += (forced->empty() ? "" : ", ") + process.role;
    Signal(process, SIGTERM);
  }
  if (!WaitForAll(record, Deadline::After(kSignalPatience))) {
    for (const ProcessRecord& process : record.processes) Signal(process, SIGKILL);
  }
  if (!WaitForAll(record, Deadline::After(kSignalPatience))) {
    return DeadlineExceeded("processes of the cluster \"", record.name, "\" survive SIGKILL; see ",
                            record.directory);
  }
  return RemoveCluster(record);
}

}  // namespace lockstep::cli
