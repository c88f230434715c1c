// What the controller's parts have to say to clients and workers, until the loop sends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/control/channel.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/membership.h"

namespace lockstep::controller {

// A batch in the total order.
struct PlacedBatch {
  uint64_t number = 0;
  SessionId session;
  uint64_t first_command = 0;  // 0: the controller's own
  uint64_t body_bytes = 0;
  TimePoint arrived;
};

// Keeps the order in which things were said. What is said over the liveness sockets goes its own
// way (liveness.h): an abort may arrive before or after what was put in here, whichever of the two
// was said first.
//
// What is held is bounded: beyond kMostItems or kMostBytes it is sent in the middle of what a part
// is doing, so that welcomes of a large world, say, leave one after the other.
//
// Threads: one at a time. Its memory is used again after Clear(), names included, so a steady
// stream of batches and answers costs no allocation; frames are shared, never copied.
class Outbox {
 public:
  static constexpr size_t kMostItems = 256;
  static constexpr size_t kMostBytes = size_t{1} << 20;

  struct Item {
    enum class To { kClient, kWorker, kAllWorkers };
    To to = To::kClient;
    control::PeerName peer;  // kClient, kWorker
    WorkerPeers workers;     // kAllWorkers
    control::Message message;
    PlacedBatch batch;  // kAllWorkers
  };

  // `flush` sends all items and calls Clear(). Without it all is held until it is asked for.
  void SendWhenFull(std::function<void()> flush) { flush_ = std::move(flush); }

  // To one client. An empty name is a session's that has no client for now: nothing is sent.
  void ToClient(const control::PeerName& client, control::Message message) {
    if (client.empty()) return;
    Item& item = Add(Item::To::kClient, std::move(message));
    item.peer.assign(client);
    SendIfFull();
  }
  void ToWorker(const control::PeerName& worker, control::Frame frame) {
    ToWorker(worker, control::Message{std::move(frame)});
  }
  void ToWorker(const control::PeerName& worker, control::Message message) {
    Item& item = Add(Item::To::kWorker, std::move(message));
    item.peer.assign(worker);
    SendIfFull();
  }
  // A batch: envelope and body.
  void ToAllWorkers(WorkerPeers workers, control::Message message, const PlacedBatch& batch) {
    Item& item = Add(Item::To::kAllWorkers, std::move(message));
    item.workers = std::move(workers);
    item.batch = batch;
    SendIfFull();
  }

  absl::Span<const Item> items() const { return absl::MakeConstSpan(items_.data(), count_); }
  // What the items hold of others' is let go; their own memory stays.
  void Clear() {
    for (size_t i = 0; i < count_; ++i) {
      items_[i].workers.reset();
      items_[i].message.clear();
    }
    count_ = bytes_ = 0;
  }

 private:
  Item& Add(Item::To to, control::Message message) {
    if (count_ == items_.size()) items_.emplace_back();
    Item& item = items_[count_++];
    for (const control::Frame& frame : message) bytes_ += frame.size();
    item.to = to;
    item.message = std::move(message);
    return item;
  }
  void SendIfFull() {
    if (count_ < kMostItems && bytes_ < kMostBytes) [[likely]]
      return;
    if (flush_) flush_();
  }

  std::function<void()> flush_;
  std::vector<Item> items_;  // the first count_ are to be sent, the others are memory for more
  size_t count_ = 0;
  size_t bytes_ = 0;  // of their frames
};

}  // namespace lockstep::controller
