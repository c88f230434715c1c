// A whole cluster started by one program: the default of the quick start, and of tests.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::local {

struct LocalClusterOptions {
  enum class Mode {
    kThreads,    // workers are threads of this process; messages go by inproc
    kProcesses,  // workers are child processes; messages to them go by ipc, or by tcp
  };

  int workers = 4;
  Mode mode = Mode::kThreads;
  // kProcesses: everything goes through ports of 127.0.0.1, as between hosts. Any user of this host
  // can connect to them.
  bool tcp = false;
  // Name for status and logs; a unique one is made if empty.
  std::string cluster;
  // Directories that modules may be loaded from.
  std::vector<std::string> module_path;
  // Most memory that each worker's tensors take.
  size_t arena_bytes = size_t{16} << 30;
  // Most bytes that the values in one session's registers take on each worker; 0: as many as
  // arena_bytes.
  size_t max_session_bytes = 0;
  // Where workers make tensors: "cpu", or "cuda": each on a GPU of its own.
  std::string device = "cpu";
  // Most bytes that tensors on each GPU have; 0: as many as there are.
  size_t device_memory_bytes = 0;
  // Of each GPU's memory, so much is registered with NCCL; 0: none.
  size_t registered_memory_bytes = 0;
  // Lanes of plans in host memory: 1, 2, or 0: as there are cores.
  int plan_lanes = 0;
  // The program that compiles fragments; empty: $LOCKSTEP_COMPILER, or `lockstep-compiler` beside
  // this program, or in PATH.
  std::string compiler;
  // The one that compiles CUDA source, likewise ($LOCKSTEP_CUDA_COMPILER,
  // `lockstep-cuda-compiler`), and the file of NVRTC that it loads; empty: wherever the dynamic
  // linker finds it.
  std::string cuda_compiler;
  std::string nvrtc_library;
  // The most address space that such a program takes; 0: any.
  size_t compiler_memory_bytes = size_t{4} << 30;
  // The directory where the workers keep compiled fragments; empty: one that they share as long as
  // this cluster runs.
  std::string fragment_cache;
  // Of each worker, among which it divides the loops and products of one fragment.
  int fragment_threads = 1;
  // Of the controller and of each worker: "auto"; "off"; or "on", and the cluster does not start
  // unless all commands go by ring.
  std::string command_rings = "auto";
  std::chrono::milliseconds collective_timeout{300'000};
  std::chrono::milliseconds start_timeout{30'000};
  // kProcesses: the worker's executable. If empty: $LOCKSTEP_WORKER, else `lockstep-worker` beside
  // this program, in its build tree, or in PATH (FindProgram() in child_process.h).
  std::string worker_binary;
};

// Threads: Stop() and Connect() may be called from any thread, one at a time.
// Ownership: stops everything when destroyed. Child processes die with this one.
class LocalCluster {
 public:
  // Starts controller and workers and returns when all are ready.
  static StatusOr<std::unique_ptr<LocalCluster>> Start(const LocalClusterOptions& options);

  ~LocalCluster();

  // A session with this cluster. options.endpoint is filled in.
  StatusOr<Session> Connect(SessionOptions options = {});

  // Where clients of other processes can connect (kProcesses), or of this one (kThreads).
  const std::string& endpoint() const;
  // kProcesses: the workers' process ids in rank order.
  const std::vector<pid_t>& worker_pids() const;

  // Starts another worker for the rank of one that is lost. One that still runs is ended first: a
  // process is killed, a thread finishes its command. Sessions go on with AwaitWorkers() and
  // Reset().
  Status ReplaceWorker(Rank rank);

  // Stops workers, then the controller. Idempotent. Reports what did not stop in time.
  Status Stop();

 private:
  struct Impl;
  explicit LocalCluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::local
