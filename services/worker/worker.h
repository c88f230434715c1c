// A worker: joins a cluster, and executes what the controller sends until it is told to stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/zmq/zmq_context.h"
#include "runtime/module/function_table.h"
#include "runtime/tensor/arena.h"
#include "services/worker/activity.h"
#include "services/worker/bulk_server.h"
#include "services/worker/executor.h"
#include "services/worker/join.h"
#include "services/worker/liveness_client.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// Threads: the public functions are safe. The executing thread reads the command socket itself and
// runs every command; liveness and bulk copies have threads of their own.
class Worker {
 public:
  // Makes the arena and starts the threads; joining goes on in the background. kInvalidArgument for
  // bad options, kUnavailable or kResourceExhausted if there is no shared memory to work with.
  static StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options,
                                                 std::shared_ptr<control::ZmqContext> context);
  ~Worker();

  // Ends the worker; a command that runs is finished, collectives are aborted.
  void RequestStop(const std::string& reason);
  // Returns when the worker has ended: OK after an orderly shutdown, else why (refused, controller
  // lost); kDeadlineExceeded if, and only if, it has not ended by then.
  Status Wait(Deadline deadline);

 private:
  Worker(const WorkerOptions& options, std::shared_ptr<control::ZmqContext> context,
         std::shared_ptr<tensor::Arena> arena, std::unique_ptr<control::ClientChannel> controller,
         std::unique_ptr<BulkServer> bulk);

  void Run();
  Status JoinAndServe();
  // What becomes of a worker whose controller is silent or was replaced is decided here alone: it
  // ends. Comes on the liveness thread.
  void OnControllerLost(const Status& why);
  Status ServeWith(collective::Communicator& world);
  Status Serve(Executor& executor);
  // False when it is time to stop.
  StatusOr<bool> Handle(Executor& executor, const control::Message& message);

  const WorkerOptions options_;
  const std::shared_ptr<control::ZmqContext> context_;
  const std::shared_ptr<tensor::Arena> arena_;
  const std::unique_ptr<control::ClientChannel> controller_;
  const std::unique_ptr<BulkServer> bulk_;
  module::FunctionTable functions_;
  Activity activity_;
  Place place_;
  uint64_t last_sequence_ = 0;
  bool sent_away_ = false;  // by the controller's shutdown; the executing thread's

  control::WakeUp wake_up_;
  std::atomic<bool> stopping_{false};
  std::mutex state_mutex_;
  std::condition_variable ended_changed_;
  std::string stop_reason_;
  Executor* executor_ = nullptr;  // while it serves; for RequestStop
  Status controller_lost_;        // why there is no controller any more; OK: there is
  bool ended_ = false;
  Status end_status_;

  std::thread thread_;
};

}  // namespace lockstep::worker
