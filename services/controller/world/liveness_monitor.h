// Liveness: which workers are alive, apart from the command path, so that a long kernel never looks
// like a dead worker and an abort reaches a worker that is busy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "schemas/membership.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/world/exchanges.h"
#include "services/controller/world/watched_workers.h"

namespace lockstep::controller {

// Listens for heartbeats on a socket and a thread of its own; watches processes on this host, so
// that a killed worker is noticed at once and not after a time-out. Heartbeats of workers that
// another controller welcomed count for nothing, and are answered with this one's; those of
// workers that this one has given up are told to end.
//
// Threads: safe. The callbacks come on the liveness thread, and call nothing here: `on_lost` once
// per watching; news of one that has been given up meanwhile may still come.
class LivenessMonitor final : public Liveness {
 public:
  struct Options {
    Epoch controller;  // in which it was started
    std::chrono::milliseconds heartbeat_interval{500};
    // As in WatchedWorkers::Patience.
    std::chrono::milliseconds joining_timeout{5000};
    std::chrono::milliseconds worker_timeout{2000};
    // What a client that takes this socket for the controller's is told.
    std::string client_endpoint{};
  };
  using OnLost = std::function<void(const WorkerLoss&)>;
  using OnReport = std::function<void(const WorkerReport&)>;
  using OnHeartbeat = std::function<void(Rank, wire::Heartbeat::Reader)>;
  using OnFetched = std::function<void(FetchedTrace)>;

  LivenessMonitor(std::unique_ptr<control::ServerChannel> channel, int workers,
                  const Options& options, OnLost on_lost, OnReport on_report,
                  OnHeartbeat on_heartbeat = {}, OnFetched on_fetched = {});
  ~LivenessMonitor() override;

  WatchId Watch(Rank rank, const std::string& host_id, int pid,
                const std::string& activity = "") override;
  void NoteAlive(Rank rank) override;
  void ExpectHeartbeats(Rank rank) override;
  void Forget(Rank rank) override;
  WorkerLoss GiveUp(Rank rank, const std::string& reason) override;
  // Those whose process has ended and of whom on_lost has not told; nor will it. Costs a system
  // call for each.
  std::vector<WorkerLoss> TakeEnded();
  // The same, and those of whom on_lost has told since the last call.
  std::vector<WorkerLoss> TakeLosses() override;
  LastHeard LastHeardOf(Rank rank) const override;

  void Abort(SessionId session, Generation generation, uint64_t from_command,
             const control::RemoteError& cause, std::optional<Rank> only = {}) override;
  void BreakWorld(Epoch epoch) override;
  void Probe(uint64_t probe) override;
  void AskRegisters(uint64_t probe, Rank rank, SessionId session, uint32_t most) override;
  void Tell(control::Frame frame, std::optional<Rank> only = {}) override;

  // Sends what is queued and ends the thread.
  void Stop();

 private:
  void Run();
  // False: nothing has come.
  bool ReceiveAll();
  // A Report or HeldRegisters.
  template <typename Reader>
  void HandleReport(Reader report, const control::Frame& frame);
  void HandleHeartbeat(const control::PeerName& from, wire::Heartbeat::Reader heartbeat);
  void HandleExchange(const control::PeerName& from, wire::Exchange::Reader exchange);
  // `received`: when it came.
  void HandleTrace(const control::PeerName& from, wire::TraceOrder::Reader order,
                   const control::Message& message, int64_t received);
  void SendQueued();
  void SendBeacon(const std::vector<control::PeerName>& peers);
  void Dismiss(const control::PeerName& worker, const std::string& why);
  void FindLost();
  // True if a message that names a controller, a rank and a watch is one of a worker that is
  // watched. With mutex_ held.
  template <typename Reader>
  bool IsFromWatched(Reader message) const;

  const Options options_;
  const OnLost on_lost_;
  const OnReport on_report_;
  const OnHeartbeat on_heartbeat_;
  const OnFetched on_fetched_;
  const std::unique_ptr<control::ServerChannel> channel_;  // the liveness thread's
  control::WakeUp wake_up_;

  mutable std::mutex mutex_;
  WatchedWorkers workers_;
  Exchanges exchanges_;
  std::vector<WorkerLoss> losses_;  // of which on_lost has told, and which were not taken yet
  struct Queued {
    control::Frame frame;
    std::optional<Rank> only;  // none: to all
  };
  std::vector<Queued> queued_;  // to be sent
  bool greet_ = false;          // a worker was heard for the first time and waits for a sign

  std::atomic<uint64_t> broken_{0};  // the last world that has lost a worker
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lockstep::controller
