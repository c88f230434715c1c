// How a worker comes to its GPU: which one it takes, and what works with it from then on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/collective/rendezvous.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/executor.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/report/worker_metrics.h"

namespace lockstep::worker {

// Threads: the executing thread.
class GpuSetup {
 public:
  // What works with the GPU.
  struct Users {
    Executor& executor;
    BulkServer& bulk;
    WorkerMetrics& metrics;
  };

  // `options` are borrowed. `describe_memory_use`: see OpenDevice().
  GpuSetup(const WorkerOptions& options, std::function<std::string()> describe_memory_use)
      : options_(options), describe_memory_use_(std::move(describe_memory_use)) {}

  // Chooses this worker's GPU with all other ranks, if it is to have one and has none yet, and
  // gives it to its users. True if any rank has one.
  StatusOr<bool> Take(const Membership& membership, collective::Rendezvous& rendezvous,
                      const std::atomic<bool>& cancelled, const Users& users);

  // Null: this worker has none.
  collective::Accelerator* gpu() const { return gpu_.get(); }

 private:
  const WorkerOptions& options_;
  const std::function<std::string()> describe_memory_use_;
  std::shared_ptr<collective::Accelerator> gpu_;
};

}  // namespace lockstep::worker
