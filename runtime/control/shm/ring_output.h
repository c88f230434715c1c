// What the controller says in one broadcast memory, and what waits for room there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/shm/broadcast_pages.h"
#include "runtime/control/shm/broadcast_ring.h"
#include "runtime/control/shm/record.h"

namespace lockstep::control {

// Threads: one at a time.
class RingOutput {
 public:
  explicit RingOutput(std::shared_ptr<const BroadcastPages> pages)
      : pages_(std::move(pages)), writer_(pages_->memory()) {}

  const BroadcastMemory& memory() const { return pages_->memory(); }
  BroadcastWriter& writer() { return writer_; }
  const BroadcastWriter& writer() const { return writer_; }

  // Messages are here that there was no room for.
  bool is_waiting() const { return !waiting_.empty(); }
  size_t waiting() const { return waiting_.size(); }
  // Now, or once all that waits has been written. True: something was written.
  bool Publish(RecordKind kind, uint64_t tag, const Message& message);
  // As much as there is room for. True: something was written.
  bool PublishWaiting();

 private:
  struct Waiting {
    RecordKind kind;
    uint64_t tag;
    Message message;
  };

  // For all that waits, or for the largest record: to be woken for each of many small ones would
  // take longer than to write it.
  uint64_t RoomToAwait() const;

  const std::shared_ptr<const BroadcastPages> pages_;
  BroadcastWriter writer_;
  std::deque<Waiting> waiting_;
};

}  // namespace lockstep::control
