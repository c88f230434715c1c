// A cluster of real services on several hosts, made of network namespaces (tests/support/
// virtual_hosts.h): the workers' hosts first, the controller's last. The test is a client on yet
// another host.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/ids.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "services/controller/options.h"
#include "services/local/cluster_config.h"
#include "services/local/temporary_directory.h"
#include "services/worker/options.h"
#include "tests/support/virtual_hosts.h"

namespace lockstep::testing {

struct NetnsClusterOptions {
  int hosts = 3;
  int ranks_per_host = 2;
  bool ipv6 = false;
  bool controller_listens_everywhere = false;
  // Workers ask for no rank of their own.
  bool assigned_ranks = false;
  // The name by which workers know the controller's host (see MoveController()); empty: they know
  // its address.
  std::string controller_name = {};
  // What services start from; endpoints, names and ranks are filled in.
  controller::ControllerOptions controller = {};
  worker::WorkerOptions worker = {};
};

class NetnsCluster {
 public:
  // Boots the hosts; nothing runs on them yet.
  explicit NetnsCluster(const NetnsClusterOptions& options = {});

  support::VirtualHosts& hosts() { return hosts_; }
  const support::VirtualHosts& hosts() const { return hosts_; }
  int controller_host() const { return controller_host_; }
  int HostOf(Rank rank) const { return rank / options_.ranks_per_host; }
  int workers() const { return options_.hosts * options_.ranks_per_host; }
  // Where clients connect.
  std::string endpoint() const { return Endpoint(7400); }
  // The same with an operator's keys.
  ControllerAddress address() const;

  Status StartController();
  // From now on `controller_name` stands for `host` on all hosts, and the controller starts there.
  void MoveController(int host);
  Status StartWorker(Rank rank);
  Status StartWorkersOf(int host);
  std::vector<Rank> RanksOf(int host) const;
  // Starts everything, and returns when all workers are ready.
  Status Start();

  // Returns when all workers are ready; kDeadlineExceeded says how the cluster is instead.
  Status AwaitReady(std::chrono::milliseconds patience = std::chrono::seconds(30));
  StatusOr<ClusterStatus> Ask();
  StatusOr<Session> Connect(SessionOptions options = {});

  // Returns when all processes have ended because they were asked to; kInternal names those that
  // did not end well, kDeadlineExceeded one that did not end.
  Status Stop();

  // Ends one process at once, with SIGKILL.
  void KillController();
  void KillWorker(Rank rank);
  // Ends a host with all that runs there. The same host again, with nothing running: BootHost().
  void KillHost(int host);
  void BootHost(int host) { hosts_.Boot(host); }
  // Returns when the process has ended by itself; kDeadlineExceeded if it does not.
  StatusOr<ExitStatus> AwaitEnd(const std::string& name);
  // The same of all, however they end.
  Status AwaitAllEnds();
  // The processes that run, or have ended and not been started again; by name.
  std::map<std::string, pid_t> Pids() const;
  // What a process has logged.
  std::string LogOf(const std::string& name) const;  // "controller", "worker-3"

 private:
  std::string Endpoint(int port) const;
  Status Run(int host, const std::string& name, const std::string& program,
             const std::string& settings);
  void Kill(const std::string& name);
  // It is the only child of the process that has entered the host with it; -1: it has ended.
  static pid_t PidOf(const ChildProcess& process);

  const NetnsClusterOptions options_;
  int controller_host_;
  std::unique_ptr<local::TemporaryDirectory> directory_;
  local::ClusterOptions keys_;  // only what is about keys
  std::map<std::string, ChildProcess> processes_;
  support::VirtualHosts hosts_;  // ends all processes, before they are waited for
};

}  // namespace lockstep::testing
