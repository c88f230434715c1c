// Puts batches in order and sends them to all workers.
#pragma once

#include <utility>

#include "runtime/control/channel.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tracing.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class Broadcaster {
 public:
  Broadcaster(const Clock& clock, const Membership& membership, BatchOrder& order, Outbox& outbox,
              Tracing& tracing)
      : clock_(clock), membership_(membership), order_(order), outbox_(outbox), tracing_(tracing) {}

  // Gives `body` the next place in the total order and sends it to all workers. The body is shared,
  // and never decoded.
  void Send(const OrderedBatch& batch, const control::Frame& body) {
    const TimePoint now = clock_.Now();
    control::Frame envelope = order_.Place(batch, membership_.epoch(), now);
    outbox_.ToAllWorkers(membership_.welcome_peers(), {std::move(envelope), body},
                         {order_.last(), batch.session, batch.first_command, body.size(),
                          batch.arrived.value_or(now)});
  }
  // The loop has handed it to the workers' channel: a timeline shows it until now.
  void NoteSent(const PlacedBatch& batch) {
    if (tracing_.is_recording()) [[unlikely]]
      tracing_.AddBatch(batch.session, batch.first_command, batch.body_bytes, batch.arrived);
  }

 private:
  const Clock& clock_;
  const Membership& membership_;
  BatchOrder& order_;
  Outbox& outbox_;
  Tracing& tracing_;
};

}  // namespace lockstep::controller
