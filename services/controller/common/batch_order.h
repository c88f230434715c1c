// The one order of all batches, and how far each session may be ahead of the workers.
//
// Nothing here reaches into other parts, waits, or allocates more than the envelope that is sent.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"

namespace lockstep::controller {

struct FlowLimits {
  uint64_t window_bytes = 0;     // that a session may have under way
  uint64_t max_batch_bytes = 0;  // the largest body
};

// One session's commands: which come next, and what its workers have consumed. Bytes are as
// FlowCost() counts.
class CommandStream {
 public:
  // Stands for what a lost worker has consumed: nothing waits for it.
  static constexpr uint64_t kConsumesNothing = std::numeric_limits<uint64_t>::max();

  CommandStream() = default;
  CommandStream(SessionId session, int workers, uint64_t next_command = 1)
      : session_(session),
        next_command_(next_command),
        consumed_(static_cast<size_t>(workers), 0) {}

  // Takes a batch in: `count` commands from number `first` on. kDataLoss: others are missing before
  // it; or it was sent before. kResourceExhausted: more is under way than any client may have that
  // keeps to the window.
  Status Admit(const FlowLimits& limits, uint64_t first, uint32_t count, uint64_t cost);

  // A reset begins a generation. The client goes on with `next_command` and has sent
  // `client_bytes`: what was lost before is not missed any more. True if anything was, and there is
  // more credit.
  bool Reset(uint64_t next_command, uint64_t client_bytes);
  // The client has come back to a restored session, and is further than any worker.
  void SkipTo(uint64_t next_command) { next_command_ = next_command; }
  // Another client counts what it sends from anew.
  void ForgetLostBytes() { lost_bytes_ = 0; }

  // `rank` has consumed so much. True if the slowest worker has come further by that. The last
  // words of a lost worker count for nothing.
  bool Consume(Rank rank, uint64_t bytes);
  // The worker of `rank` is lost: nothing waits for it.
  void Leave(Rank rank) { consumed_[static_cast<size_t>(rank)] = kConsumesNothing; }
  // `rank` has another worker, which gets what is sent from now on.
  void Join(Rank rank) { consumed_[static_cast<size_t>(rank)] = sent_bytes_; }

  uint64_t next_command() const { return next_command_; }
  // The first command of this generation.
  uint64_t reset_at() const { return reset_at_; }
  // Of the bodies sent on.
  uint64_t sent_bytes() const { return sent_bytes_; }
  // Of those that are not lost; kConsumesNothing if all are.
  uint64_t SlowestConsumed() const;
  // What was sent and the slowest worker has not consumed; lost workers do not count.
  uint64_t UnderWay() const { return sent_bytes_ - std::min(SlowestConsumed(), sent_bytes_); }
  // Up to where the client may forget what it has sent. Without any worker that is all of it.
  uint64_t credit() const { return sent_bytes_ - UnderWay() + lost_bytes_; }

 private:
  SessionId session_;
  uint64_t next_command_ = 1;
  uint64_t reset_at_ = 1;
  uint64_t sent_bytes_ = 0;
  uint64_t lost_bytes_ = 0;         // of bodies that were lost on their way here
  std::vector<uint64_t> consumed_;  // by rank
};

// What an envelope says of a batch.
struct OrderedBatch {
  SessionId session;
  Generation generation;
  uint64_t first_command = 0;  // 0: the controller's own
  RequestId request;
  // Of a client's batch, for metrics: how long it was there, and when it came here.
  std::chrono::nanoseconds in_client{0};
  std::optional<Deadline::Clock::time_point> arrived = {};
};

class BatchOrder {
 public:
  // Gives the batch the next number. Returns the envelope that goes before its body.
  control::Frame Place(const OrderedBatch& batch, Epoch world, Deadline::Clock::time_point now);
  // The number that was given last.
  uint64_t last() const { return sequence_; }

 private:
  uint64_t sequence_ = 0;
};

}  // namespace lockstep::controller
