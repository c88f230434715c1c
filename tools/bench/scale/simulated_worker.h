// A worker that says on the wire what a real one says, and has no registers, no memory and no
// threads: for measuring controllers with more workers than this machine could run.
//
// It joins, takes part in the exchanges by which ranks connect, says ready, takes every batch in
// order, answers syncs and the controller's own commands, reports what it has consumed, sends
// heartbeats and answers probes. Calls are decoded and counted. What it cannot do (fetch a
// register, say) it refuses.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/tree_node.h"
#include "runtime/control/worker_report.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/membership.capnp.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/membership.h"

namespace lockstep::bench {

// Threads: one at a time. Nothing here waits.
class SimulatedWorker {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string cluster;
    std::string endpoint;  // the controller's, for workers
    Rank rank = 0;         // that it asks for
    // Where it listens as a relay, if it is one; empty: it takes no part in trees.
    std::string relay_endpoint = {};
  };

  // Connects and says hello. The errors of ZmqConnect().
  static StatusOr<std::unique_ptr<SimulatedWorker>> Start(
      std::shared_ptr<control::ZmqContext> context, const Options& options);

  // Says what is due and takes in what has come, on both channels, until there is no more. An
  // error: the controller has refused it or given it up, or batches are missing.
  Status Go(Clock::time_point now);
  // When there is something to say next, whatever comes.
  Clock::time_point next() const { return next_; }

  // Those to sleep on, after Go().
  absl::InlinedVector<control::Channel*, 4> channels();
  // Grows when they are others than before.
  uint64_t changes() const { return changes_ + (node_.has_value() ? node_->changes() : 0); }

  // It is connected with the other ranks, as far as the controller is told.
  bool is_ready() const { return is_ready_; }
  uint64_t calls() const { return calls_; }

 private:
  SimulatedWorker(std::shared_ptr<control::ZmqContext> context, const Options& options)
      : context_(std::move(context)), options_(options) {}

  Status TakeCommands();
  Status SendUp(control::Frame frame);
  void TakePlace(const control::TreeOffer& offer);
  Status SayHello();
  // A heartbeat, and what is due with it.
  Status Beat(Clock::time_point now);
  Status SayHeartbeat();
  // Of the exchange that is under way: what this rank tells the others.
  Status SayOffer();
  Status TakeCommand(const control::Message& message);
  Status TakeBatch(const worker::BatchContext& batch, uint64_t sequence,
                   const control::Frame& body);
  Status TakeLiveness(wire::LivenessMessage::Reader message, const control::Frame& body);
  // Counts the arenas and reads no names: all workers here share one thread, and would read a
  // million of them before the last one is heard.
  Status Enter(Epoch epoch, wire::Welcome::Reader welcome, const control::Frame& arenas);
  Status Reply(const worker::BatchContext& batch, const Status& status);

  const std::shared_ptr<control::ZmqContext> context_;
  const Options options_;
  std::unique_ptr<control::ClientChannel> commands_;
  std::unique_ptr<control::ClientChannel> liveness_;
  std::optional<control::TreeNode> node_;  // once it was given a place
  std::deque<control::Message> delivered_;
  uint64_t relays_ = 0;  // that it has listened as
  uint64_t changes_ = 0;
  worker::Membership membership_;
  Clock::time_point said_{};  // the last heartbeat
  Clock::time_point next_{};
  bool is_welcome_ = false;
  bool is_ready_ = false;
  uint64_t exchange_ = 0;  // the number of the one under way
  int exchanges_left_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t consumed_bytes_ = 0;  // of the one session that is measured at a time
  uint64_t reported_bytes_ = 0;
  SessionId session_;
  uint64_t calls_ = 0;
  WorkerActivity activity_;
};

}  // namespace lockstep::bench
