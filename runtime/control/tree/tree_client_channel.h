// A worker's channel to its controller: as another channel gives it, and through a tree of relays
// once the worker is told of one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/tree/tree_node.h"
#include "runtime/control/tree/tree_note.h"

namespace lockstep::control {

// Without a tree it costs a virtual call. With one, a thread of its own reads the sockets, so that
// a worker that executes something long passes on what is for others meanwhile. What a slow child
// or this worker has yet to take waits in memory; what sessions may have under way bounds that.
//
// Threads: one at a time.
class TreeClientChannel final : public ClientChannel {
 public:
  // `direct` is borrowed.
  TreeClientChannel(ClientChannel& direct, TreeConnections connections,
                    std::chrono::microseconds poll_before_sleep)
      : direct_(direct),
        connections_(std::move(connections)),
        poll_before_sleep_(poll_before_sleep) {}
  // What was sent is handed to the sockets first.
  ~TreeClientChannel() override;

  // The worker was welcomed with this offer, or with none (its `world` is 0). From the first on,
  // the thread owns `direct`.
  void Begin(const TreeOffer& offer);
  bool has_tree() const { return thread_.joinable(); }

  bool HasInput() override;
  int wait_fd() const override { return has_tree() ? input_.fd() : direct_.wait_fd(); }
  bool drained() const override { return has_tree() ? count_ == 0 : direct_.drained(); }
  void BeginSleep() override;
  void EndSleep() override;
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;
  Status trouble() const override { return has_tree() ? OkStatus() : direct_.trouble(); }

 private:
  void Run();
  void Deliver(Message message);
  // False when it is time to end.
  bool TakeTasks(TreeNode& node);

  ClientChannel& direct_;
  const TreeConnections connections_;
  const std::chrono::microseconds poll_before_sleep_;

  WakeUp input_;                  // for the worker
  WakeUp tasks_;                  // for the thread
  std::atomic<size_t> count_{0};  // of incoming_
  std::atomic<bool> has_tasks_{false};
  std::mutex mutex_;  // guards what follows
  std::deque<Message> incoming_;
  std::deque<Message> outgoing_;
  std::optional<TreeOffer> offer_;
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace lockstep::control
