#include "services/local/service_process.h"

#include <unistd.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <utility>

#include "runtime/base/shared_segment.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::local {
namespace {

constexpr int kTailLines = 10;

}  // namespace

StatusOr<ServiceProcess> ServiceProcess::Start(const ServiceProcessOptions& options) {
  const std::string base = options.directory + "/" + options.role;
  // There may be a key in it. It is of no use longer than the process, which a crash ends, too.
  LOCKSTEP_RETURN_IF_ERROR(control::WriteFileWhole(base + ".yaml", options.settings, 0600,
                                                   control::AfterCrash::kAnything));
  ChildOptions child;
  child.argv = {options.program, "--config", base + ".yaml"};
  if (options.detached) {
    // And no setsid(): the kernel may deal out time to sessions first, and then to the processes of
    // each (autogroup), and sched_yield() gives a processor to those of the same session only.
    child.argv.push_back("--leave-terminal");
  } else {
    child.argv.insert(child.argv.end(), {"--die-with-parent", std::to_string(getpid())});
  }
  child.argv.insert(child.argv.end(), options.arguments.begin(), options.arguments.end());
  child.log_path = base + ".log";
  const std::string name =
      options.role + (options.remote_host.empty() ? "" : " on " + options.remote_host);
  StatusOr<ChildProcess> process = ChildProcess::Spawn(child);
  if (!process.ok()) return Annotate(process.status(), name);
  return ServiceProcess(name, child.log_path, *std::move(process));
}

Status ServiceProcess::CheckRunning() {
  const StatusOr<ExitStatus> status = child_.Wait(Deadline::After(std::chrono::seconds(0)));
  if (status.status().code() == StatusCode::kDeadlineExceeded) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(status.status());
  end_ = *status;
  return DescribeEnd(*status);
}

Status ServiceProcess::WaitOrKill(Deadline patience) {
  const StatusOr<ExitStatus> status = child_.WaitOrKill(patience);
  if (!status.ok()) return Annotate(status.status(), name_);
  if (status->ok() || reported()) return OkStatus();
  return DescribeEnd(*status);
}

Status ServiceProcess::DescribeEnd(const ExitStatus& status) const {
  const std::string tail = LogTail(log_path_, kTailLines);
  return Unavailable(name_, " (process ", pid(), ") ", status.Describe(),
                     tail.empty() ? "; it has logged nothing" : "; the end of its log:\n" + tail);
}

Status TerminateAll(std::vector<ServiceProcess>& processes, Deadline patience) {
  // One signal each: a service takes a second one for impatience.
  for (ServiceProcess& process : processes) process.child().Signal(SIGTERM);
  std::string problems;
  for (ServiceProcess& process : processes) {
    const Status status = process.WaitOrKill(patience);
    if (status.ok()) continue;
    if (!problems.empty()) problems += '\n';
    problems += Message(status);
  }
  // A process that was killed could not remove its shared memory.
  SharedSegment::Sweep(SharedSegment::kNamePrefix);
  return problems.empty() ? OkStatus() : Unavailable(problems);
}

void WaitForAll(std::vector<ServiceProcess>& processes, Deadline deadline) {
  for (ServiceProcess& process : processes) (void)process.child().Wait(deadline);
}

std::string LogTail(const std::string& path, int count) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back("    " + line);
    if (static_cast<int>(lines.size()) > count) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

}  // namespace lockstep::local
