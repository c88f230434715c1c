// A cluster of real service processes: what `lockstep up` starts and `lockstep down` ends. A worker
// on another host is represented by a process on this one (services/remote).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "services/local/cluster_config.h"
#include "services/local/service_process.h"

namespace lockstep::local {

struct ClusterProcessesOptions {
  ClusterOptions cluster;
  // Exists, and no other user may enter it: a program that reaches the sockets commands the
  // cluster. Sockets, logs, and the configuration files of the processes go here.
  std::string directory;
  // The processes outlive this one, after Release().
  bool detached = false;
  // How long all may take to become ready.
  std::chrono::milliseconds start_timeout{30'000};
  // The executables. If empty: see FindProgram(), with $LOCKSTEP_CONTROLLER, $LOCKSTEP_WORKER and
  // $LOCKSTEP_REMOTE_WORKER.
  std::string controller_program;
  std::string worker_program;
  std::string remote_worker_program;
};

// Threads: one at a time. Ownership: stops everything when destroyed, unless Release() was called.
class ClusterProcesses {
 public:
  // Starts all processes at once and returns when the cluster is ready. A process that ends before
  // is reported at once, with the end of its log; nothing is left running then. kInvalidArgument:
  // the directory's path is too long for sockets; kNotFound: no such executable here; kUnavailable:
  // a process has ended; kDeadlineExceeded: not ready in time; kCancelled: `cancel_fd` became
  // readable (-1: none), which is noticed within a fraction of a second.
  static StatusOr<std::unique_ptr<ClusterProcesses>> Start(const ClusterProcessesOptions& options,
                                                           int cancel_fd = -1);
  ~ClusterProcesses();

  // Where clients of this host connect.
  const std::string& endpoint() const { return address_.endpoint; }
  // The same with the keys of an operator, where clients are asked for keys.
  const ControllerAddress& address() const { return address_; }
  // Process ids, until Stop() or Release(): the controller's, and the workers' in rank order, or of
  // what represents them.
  pid_t controller_pid() const { return controller_.front().pid(); }
  std::vector<pid_t> worker_pids() const;

  // Starts another process for the rank of a worker that has ended; one that has not is killed. The
  // cluster is whole again a moment later, when it has joined.
  Status ReplaceWorker(Rank rank);
  // Starts the controller again, where it listened before; one that still runs is killed. The
  // workers and the clients come back to it by themselves.
  Status RestartController();

  // Waits until a process ends, and says which and how (kUnavailable); each is reported once. OK:
  // the cluster was shut down in order, by some client. kDeadlineExceeded: all still
  // run. kCancelled: `cancel_fd` became readable (-1: none).
  Status WaitForEnd(Deadline deadline, int cancel_fd = -1);

  // Ends the cluster in order: the controller tells clients and workers; what is left by then gets
  // SIGTERM, then SIGKILL. Idempotent. An error names what did not end well, apart from what
  // WaitForEnd() has reported.
  Status Stop(const std::string& reason);

  // Leaves the processes running, for good.
  void Release();

 private:
  explicit ClusterProcesses(const ClusterProcessesOptions& options) : options_(options) {}

  Status FindPrograms();
  // What `ssh` names, as a path.
  Status FindSsh();
  Status ChooseEndpoints();
  StatusOr<ServiceProcess> StartController();
  StatusOr<ServiceProcess> StartWorker(const worker::WorkerOptions& worker);
  Status StartWorkers();
  // The file that a worker on another host locks while it logs in there.
  std::string LoginSlotOf(Rank rank) const;
  // " (node1)" if the rank is on another host.
  std::string HostSuffix(Rank rank) const;
  // Waits for the file in which the controller says where it listens.
  Status ReadEndpoints(Deadline deadline, int cancel_fd);
  Status WaitUntilReady(Deadline deadline, int cancel_fd);
  // True if the end of `ended` belongs to a shutdown: the controller has ended in order, too.
  bool WasShutDown(const ServiceProcess& ended);
  // Sleeps for `pause`, or until a process ends or `cancel_fd` is readable, which are errors.
  Status Watch(std::chrono::milliseconds pause, int cancel_fd);

  ClusterProcessesOptions options_;
  ControllerAddress address_;
  // The controller: no element before it is started and after Release().
  std::vector<ServiceProcess> controller_;
  std::vector<ServiceProcess> workers_;
};

}  // namespace lockstep::local
