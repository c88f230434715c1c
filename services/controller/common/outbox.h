// What the controller's parts have to say to clients and workers, until the loop sends it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/control/channel.h"

namespace lockstep::controller {

// The workers that a batch goes to, as they were when it was put in order.
using WorkerPeers = std::shared_ptr<const std::vector<control::PeerName>>;

// Keeps the order in which things were said. What is said over the liveness sockets goes its own
// way (liveness.h).
//
// Threads: one at a time. Its memory is used again after Clear(), so a batch costs no allocation;
// frames are shared, never copied.
class Outbox {
 public:
  struct Item {
    enum class To { kClient, kWorker, kAllWorkers };
    To to = To::kClient;
    control::PeerName peer;  // kClient, kWorker
    WorkerPeers workers;     // kAllWorkers
    control::Message message;
    uint64_t batch = 0;  // kAllWorkers: its number in the total order
  };

  // To one client. An empty name is a session's that has no client for now: nothing is sent.
  void ToClient(const control::PeerName& client, control::Message message) {
    if (!client.empty()) items_.push_back({Item::To::kClient, client, {}, std::move(message)});
  }
  void ToWorker(const control::PeerName& worker, control::Frame frame) {
    items_.push_back({Item::To::kWorker, worker, {}, {std::move(frame)}});
  }
  // A batch: envelope and body.
  void ToAllWorkers(WorkerPeers workers, control::Message message, uint64_t batch) {
    items_.push_back({Item::To::kAllWorkers, {}, std::move(workers), std::move(message), batch});
  }

  const std::vector<Item>& items() const { return items_; }
  void Clear() { items_.clear(); }

 private:
  std::vector<Item> items_;
};

}  // namespace lockstep::controller
