// One service of ours as a child process: its configuration file, its log, and how it ended.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::local {

struct ServiceProcessOptions {
  std::string role;              // "controller", "worker-3": names its files
  std::string remote_host = {};  // "node1": the other host that it stands for; empty: none
  std::string program;           // path of the executable
  std::string directory;         // where ROLE.yaml and ROLE.log go
  std::string settings;          // the text of ROLE.yaml
  std::vector<std::string> arguments;
  // Outlives this process. Otherwise it stops when this process ends, however that happens.
  bool detached = false;
};

class ServiceProcess {
 public:
  static StatusOr<ServiceProcess> Start(const ServiceProcessOptions& options);

  // For messages: "controller", "worker-3", "worker-3 on node1".
  const std::string& name() const { return name_; }
  ChildProcess& child() { return child_; }
  pid_t pid() const { return child_.pid(); }

  // OK while it runs. kUnavailable once it has ended: how, and its log's last lines.
  Status CheckRunning();
  // True once CheckRunning() has told that it has ended.
  bool reported() const { return end_.has_value(); }
  // True if that end had exit code 0: it was asked to stop.
  bool EndedInOrder() const { return reported() && end_->ok(); }

  // Waits, then kills it at `patience`. OK if it ended with exit code 0, or if the end is known
  // from CheckRunning(); else the same error as CheckRunning's.
  Status WaitOrKill(Deadline patience);

 private:
  Status DescribeEnd(const ExitStatus& status) const;

  ServiceProcess(std::string name, std::string log_path, ChildProcess child)
      : name_(std::move(name)), log_path_(std::move(log_path)), child_(std::move(child)) {}

  std::string name_;
  std::string log_path_;
  ChildProcess child_;
  std::optional<ExitStatus> end_;  // as CheckRunning() has seen it
};

// Ends all of `processes`: SIGTERM to all at once, SIGKILL at `patience` to those that are left. An
// error lists those that did not end well (see WaitOrKill()).
Status TerminateAll(std::vector<ServiceProcess>& processes, Deadline patience);

// Waits for `processes` to end by themselves; those that do not are left for TerminateAll().
void WaitForAll(std::vector<ServiceProcess>& processes, Deadline deadline);

// The last `count` lines of a file, each indented; what cannot be read is empty.
std::string LogTail(const std::string& path, int count);

}  // namespace lockstep::local
