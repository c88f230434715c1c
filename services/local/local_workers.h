// The workers of a LocalCluster, wherever they run.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/worker/options.h"

namespace lockstep::local {

// Threads: one at a time. Ownership: workers that still run are ended when the object is destroyed.
class LocalWorkers {
 public:
  virtual ~LocalWorkers() = default;

  // OK while all run, else how one has ended.
  virtual Status CheckRunning() = 0;

  // Starts another for the rank of one that has ended; one that has not is made to.
  virtual Status Replace(Rank rank) = 0;

  // Waits until all have ended, which the controller has told them to do. Those that have not by
  // `patience` are made to. An error names what did not end well; what CheckRunning() has reported
  // is not said again.
  virtual Status Stop(Deadline patience) = 0;

  // Process ids in rank order; none for threads.
  virtual const std::vector<pid_t>& pids() const = 0;
};

// As threads of this process. `context` is the one that their inproc endpoints live in.
StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerThreads(
    const std::vector<worker::WorkerOptions>& ranks,
    const std::shared_ptr<control::ZmqContext>& context);

// As child processes that die with this one. Their configuration and logs go to `directory`.
StatusOr<std::unique_ptr<LocalWorkers>> StartWorkerProcesses(
    const std::vector<worker::WorkerOptions>& ranks, const std::string& program,
    const std::string& directory);

}  // namespace lockstep::local
