// The loop of a controller: reads the clients' and the workers' channels, hands messages over, and
// sends what the parts have put into their outbox. It decides nothing (dispatcher.h), and never
// waits for any of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/dropped_messages.h"
#include "services/controller/common/liveness.h"
#include "services/controller/options.h"

namespace lockstep::control {
struct DirectDoor;
class DirectServerChannel;
class Gate;
class RingServerChannel;
class TreeServerChannel;
class ZmqContext;
}  // namespace lockstep::control
namespace lockstep::metrics {
class MetricsServer;
}  // namespace lockstep::metrics

namespace lockstep::controller {

class CommandRings;
class CommandTree;
class Dispatcher;
class LivenessMonitor;
class Metrics;
class ReachBack;

// Threads: the public functions are safe. One thread of the controller's own reads the client and
// worker channels and owns all parts, and so do, for moments, threads of clients in this process,
// one at a time (runtime/control/direct); a second one watches liveness, a third tries whether
// workers can be reached.
class Controller {
 public:
  // Binds the endpoints and starts the threads. kInvalidArgument for bad options; the errors of
  // control::ZmqListen.
  static StatusOr<std::unique_ptr<Controller>> Start(
      const ControllerOptions& options, const std::shared_ptr<control::ZmqContext>& context);
  // The same over channels that listen already.
  struct Channels {
    std::unique_ptr<control::ServerChannel> clients;
    std::unique_ptr<control::ServerChannel> workers;
    std::unique_ptr<control::ServerChannel> liveness;
    // The one of `clients`; null: none is asked for a key.
    std::shared_ptr<control::Gate> client_gate = nullptr;
    // `clients` and `workers`, if they have rings; null: they have none.
    control::RingServerChannel* client_rings = nullptr;
    control::RingServerChannel* worker_rings = nullptr;
    // What `workers` has of a tree; null: all are reached directly.
    control::TreeServerChannel* worker_tree = nullptr;
  };
  static StatusOr<std::unique_ptr<Controller>> Start(const ControllerOptions& options,
                                                     Channels channels);
  ~Controller();

  // Where it really listens.
  const std::string& client_endpoint() const { return client_endpoint_; }
  const std::string& worker_endpoint() const { return worker_endpoint_; }
  const std::string& liveness_endpoint() const { return liveness_endpoint_; }
  // Empty: nowhere.
  std::string metrics_endpoint() const;

  // Ends the cluster: work in flight is aborted, workers and clients are told why.
  void RequestStop(const std::string& reason);
  // Returns when it has stopped, for whatever reason; kDeadlineExceeded if it has not by then.
  Status Wait(Deadline deadline);

 private:
  Controller(const ControllerOptions& options, Channels channels);

  Status ServeMetrics();
  void Run();
  // From now on clients of this process may turn the loop, too.
  void OpenDoor();
  bool ReceiveSome();
  // Those whose rings hold what cannot be. How many there were.
  int HandleBrokenRings();
  // Those that say in the tree what cannot be, likewise.
  int HandleBrokenPlaces();
  // Of the message that `channel` has given last.
  void LogDropped(const std::string& what, const Status& why,
                  const control::ServerChannel& channel);
  // False when it is time to stop.
  bool HandleEvents();
  // Sends what is in the outbox. Called by the outbox, too, when it is full.
  void Flush();
  void Stop();
  // Has the loop look at what other threads tell. With events_mutex_ held.
  void WakeLoop();

  const ControllerOptions options_;
  const SystemClock clock_;
  const std::unique_ptr<ClientProcesses> client_processes_;
  const Epoch incarnation_;  // in which it was started
  const std::string client_endpoint_;
  const std::string worker_endpoint_;
  const std::string liveness_endpoint_;

  // Owned by the thread that turns the loop.
  std::unique_ptr<control::DirectServerChannel> clients_;
  std::unique_ptr<control::ServerChannel> workers_;
  // What they have of rings; null: nothing.
  control::RingServerChannel* const client_channel_rings_;
  control::RingServerChannel* const worker_channel_rings_;
  const std::shared_ptr<control::DirectDoor> door_;
  const std::unique_ptr<CommandRings> client_rings_;
  const std::unique_ptr<CommandRings> worker_rings_;
  control::TreeServerChannel* const worker_channel_tree_;
  const std::unique_ptr<CommandTree> worker_tree_;
  DroppedMessages dropped_{clock_};

  // What other threads tell the loop.
  control::WakeUp wake_up_;
  std::atomic<bool> has_events_{false};
  std::mutex events_mutex_;
  std::vector<WorkerReport> report_events_;
  std::vector<FetchedTrace> fetched_events_;
  bool reach_results_ = false;  // there are some
  bool stop_requested_ = false;
  std::string stop_reason_;

  std::mutex stopped_mutex_;
  std::condition_variable stopped_changed_;
  bool stopped_ = false;

  // Each is used by those below it.
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<metrics::MetricsServer> metrics_server_;
  std::unique_ptr<LivenessMonitor> liveness_;
  std::unique_ptr<ReachBack> reach_back_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::thread thread_;
};

}  // namespace lockstep::controller
