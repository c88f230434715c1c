// The two kinds of clusters that are measured, and how long their sessions take to answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "services/local/local_cluster.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {

// Workers in processes of their own, the controller in this one. Commands reach them as they do by
// themselves, through shared memory; or by sockets alone, in a directory, or over TCP (loopback),
// as between hosts. `worker_program`: empty for the one that people run.
enum class Way { kUsual, kIpc, kTcp };
StatusOr<std::unique_ptr<local::LocalCluster>> StartLocalCluster(
    int workers, Way way = Way::kUsual, const std::string& worker_program = "");

// The same on GPUs, one for each worker.
StatusOr<std::unique_ptr<local::LocalCluster>> StartGpuCluster(int workers);

// Service processes, started and stopped with the command line tool, as people do it.
//
// Threads: one at a time. Ownership: `lockstep down` when destroyed. Its records lie in the run's
// own directory, so that clusters of the user's are neither seen nor touched.
class ServiceCluster {
 public:
  // `more`: arguments of `lockstep up`.
  static StatusOr<std::unique_ptr<ServiceCluster>> Up(const Settings& settings, int workers,
                                                      std::vector<std::string> more = {});
  ServiceCluster(const ServiceCluster&) = delete;
  ServiceCluster& operator=(const ServiceCluster&) = delete;
  ~ServiceCluster();

  StatusOr<Session> Connect() const;
  // Where each worker serves its metrics, in rank order.
  StatusOr<std::vector<std::string>> WorkerMetrics() const;
  pid_t controller_pid() const { return controller_pid_; }
  const std::vector<pid_t>& worker_pids() const { return worker_pids_; }
  // From typing `lockstep up --detach` to its end, when all workers are ready.
  std::chrono::duration<double> start_time() const { return start_time_; }

  // Idempotent.
  Status Down();

 private:
  ServiceCluster(std::string tool, std::string scratch)
      : tool_(std::move(tool)), scratch_(std::move(scratch)) {}

  const std::string tool_;
  const std::string scratch_;
  bool is_up_ = true;
  std::string endpoint_;
  pid_t controller_pid_ = 0;
  std::vector<pid_t> worker_pids_;
  std::chrono::duration<double> start_time_{0};
};

// The times of SyncAll in microseconds, for as long as `time`, with pauses between them; after some
// that do not count.
StatusOr<std::vector<double>> TimesOfSyncs(Session& session, std::chrono::milliseconds time,
                                           std::chrono::milliseconds pause = {});
// Their median, without pauses.
StatusOr<double> TimeSync(Session& session, std::chrono::milliseconds time);

}  // namespace lockstep::bench
