// Clusters for tests: every way of running one behind one interface, so that a test runs on each.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/session.h"
#include "services/controller/options.h"
#include "services/worker/options.h"

namespace lockstep::testing {

enum class ClusterKind {
  kLocalThreads,    // LocalCluster: workers are threads, messages go by inproc
  kLocalProcesses,  // LocalCluster: workers are child processes, messages go by ipc
  kTcpThreads,      // Controller and Worker objects, messages go by tcp
  kTcpProcesses,    // the two programs, messages go by tcp, with keys
  kHosts,           // the same on three hosts, which share nothing but a wire
};
// All but kHosts, or only that one, if $LOCKSTEP_CLUSTERS is "hosts": a process that has hosts of
// its own has left this one's network. Without those of threads where workers need GPUs and there
// are too few.
std::vector<ClusterKind> PossibleKinds();
// What tests of sessions run on: all that are possible; under a sanitizer, half of them with CPUs
// and the others with GPUs.
std::vector<ClusterKind> AllKinds();
inline constexpr ClusterKind kProcessKinds[] = {ClusterKind::kLocalProcesses,
                                                ClusterKind::kTcpProcesses};

// Workers have GPUs if $LOCKSTEP_DEVICE says so.
struct ClusterOptions {
  int workers = 4;
  // What every service starts from; endpoints, names and ranks are filled in. LocalCluster takes
  // only collective_timeout, arena_bytes and module_path.
  controller::ControllerOptions controller;
  worker::WorkerOptions worker;
  // kTcp*: workers with odd ranks get commands by socket, whatever the others do.
  bool odd_by_socket = false;
  // kTcpProcesses: the services ask for keys, so that clients get no memory of theirs.
  bool keys = true;

  ClusterOptions();
};

class Cluster {
 public:
  // Returns when all workers are ready.
  static StatusOr<std::unique_ptr<Cluster>> Start(ClusterKind kind,
                                                  const ClusterOptions& options = {});
  virtual ~Cluster() = default;

  // The controller's address is filled in.
  virtual StatusOr<Session> Connect(SessionOptions options = {}) = 0;
  // For the functions of admin.h and for clients made by hand; inproc endpoints need the cluster's
  // own context, so kLocalThreads has none for them.
  virtual ControllerAddress address() const = 0;
  // Of the processes' kinds, in rank order.
  virtual std::vector<pid_t> worker_pids() const = 0;
  // kTcpProcesses only; else -1.
  virtual pid_t controller_pid() const { return -1; }
  // Another worker for this rank; kLocal* and kTcpProcesses only.
  virtual Status ReplaceWorker(Rank rank) = 0;
  // kTcpProcesses only.
  virtual Status RestartController() { return Unimplemented("this controller is a thread"); }
  virtual Status Stop() = 0;
};

// One cluster of four workers for all tests of this program that do it no harm; stopped at the end.
Cluster& SharedCluster(ClusterKind kind);

// Where the modules that tests load are; the shared clusters load modules from there.
std::string ModuleDirectory();

// Why there cannot be such a cluster here; empty: there can.
std::string WhyNot(ClusterKind kind);

// Names a test's parameter.
std::string NameOf(const ::testing::TestParamInfo<ClusterKind>& info);

}  // namespace lockstep::testing
