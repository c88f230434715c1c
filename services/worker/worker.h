// A worker: joins a cluster, and executes what the controller sends until it is told to stop. When
// the controller is lost, it keeps what its sessions hold, and looks for another one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/tree/tree_client_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/control/zmq/zmq_context.h"
#include "runtime/module/function.h"
#include "runtime/tensor/arena.h"
#include "services/metrics/metrics_server.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/executor.h"
#include "services/worker/execution_control.h"
#include "services/worker/join/join.h"
#include "services/worker/options.h"
#include "services/worker/output/output_forwarder.h"
#include "services/worker/report/liveness_client.h"
#include "services/worker/report/tracer.h"
#include "services/worker/report/worker_metrics.h"
#include "services/worker/world_connection.h"

namespace lockstep::worker {

// Threads: the public functions are safe. The executing thread reads the command socket itself and
// runs every command; liveness and bulk copies have threads of their own.
class Worker {
 public:
  // Makes the arena and starts the threads; joining goes on in the background. kInvalidArgument for
  // bad options, the errors of control::CredentialsFrom(), kUnavailable or kResourceExhausted if
  // there is no shared memory to work with.
  // What functions print goes through `forwarder`, which outlives the worker; null: only to where
  // this process prints. The start waits for names that are not known yet (AwaitBulkEndpoint()),
  // but not when `must_stop`.
  static StatusOr<std::unique_ptr<Worker>> Start(
      const WorkerOptions& options, std::shared_ptr<control::ZmqContext> context,
      OutputForwarder* forwarder = nullptr,
      const std::function<bool()>& must_stop = [] { return false; });
  ~Worker();

  // Ends the worker; a command that runs is finished, collectives are aborted.
  void RequestStop(const std::string& reason) { execution_.RequestStop(reason); }
  // Returns when the worker has ended: OK after an orderly shutdown, else why (refused, controller
  // lost); kDeadlineExceeded if, and only if, it has not ended by then.
  Status Wait(Deadline deadline);

  // Of those that ended in this process, some keep threads that a stuck GPU does not let go of.
  static bool LeftThreadsBehind();

  // Where it serves metrics and health; empty: nowhere.
  std::string metrics_endpoint() const {
    return metrics_server_ == nullptr ? "" : metrics_server_->endpoint();
  }

 private:
  Worker(const WorkerOptions& options, control::CredentialSource credentials,
         std::shared_ptr<control::ZmqContext> context, std::shared_ptr<tensor::Arena> arena,
         std::shared_ptr<control::ActivityPage> activity, std::unique_ptr<BulkServer> bulk);

  // To the controller, with this worker's key.
  StatusOr<std::unique_ptr<control::ClientChannel>> ConnectTo(
      const std::string& endpoint, std::chrono::milliseconds linger = control::ZmqOptions().linger);

  // ... for commands.
  Status ConnectToController();
  // Takes the ring that the welcome offers, if it can be had. An error: it must be had
  // (command_rings: on), and this worker ends.
  Status TakeRing();
  Status TryToTakeRing();
  // ... or the place in a tree of relays.
  void TakePlace();
  // How it is connected with other workers there.
  control::TreeConnections ConnectionsInTree();

  Status ServeMetrics();
  // OK while no session is open.
  Status Idle();
  void Run();
  // Serves one controller after another.
  Status Work();
  // Joins a controller and serves it: until the worker is stopped (OK), or the controller is lost.
  Status ServeController(Executor& executor, const Offer& offer,
                         std::chrono::milliseconds patience);
  Status Serve(Executor& executor);
  // The controller has stopped in order, and says why.
  void OnShutdown(const std::string& why);
  // False when it is time to stop.
  StatusOr<bool> Handle(Executor& executor, const control::Message& message);
  StatusOr<bool> HandleBatch(Executor& executor, const BatchContext& batch, uint64_t sequence,
                             const control::Frame& body);
  // Takes a welcome in: gives the old world up, connects with the ranks of the new one, and says
  // ready. OK also if that world lost a worker meanwhile, or this worker its controller: there will
  // be another welcome, or none.
  Status Enter(Executor& executor, Membership membership);

  const WorkerOptions options_;
  const control::CredentialSource credentials_;
  const std::shared_ptr<control::ZmqContext> context_;
  const std::shared_ptr<tensor::Arena> arena_;
  OutputForwarder* forwarder_ = nullptr;
  // The executing thread's: what it talks to the controller by, and what that stands before.
  std::unique_ptr<control::RingClientChannel> rings_;
  std::unique_ptr<control::TreeClientChannel> controller_;
  const std::unique_ptr<BulkServer> bulk_;
  module::FunctionTable functions_;
  const std::shared_ptr<control::ActivityPage> activity_;
  // The executing thread's.
  Membership membership_;
  std::shared_ptr<ControllerRendezvous> rendezvous_;
  WorldConnection world_{options_, arena_, [this] { return execution_.DescribeMemoryUse(); }};
  uint64_t last_sequence_ = 0;
  Epoch worked_epoch_;      // the world in which a batch was executed last
  bool sent_away_ = false;  // by the controller's shutdown

  WorkerMetrics metrics_;
  ExecutionControl execution_;
  Tracer tracer_;
  std::unique_ptr<metrics::MetricsServer> metrics_server_;
  std::mutex end_mutex_;  // guards what follows, up to the thread
  std::condition_variable ended_changed_;
  bool ended_ = false;
  Status end_status_;
  std::thread thread_;
};

}  // namespace lockstep::worker
