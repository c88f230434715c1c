#include "services/controller/parts.h"

#include <vector>

namespace lockstep::controller {

Parts::Parts(const Surroundings& outside)
    : timers(outside.clock),
      tracing(outside.clock, outside.options.workers),
      membership(outside.options.cluster, outside.options.workers),
      broadcaster(outside.clock, membership, order, outbox, tracing),
      sessions(outside.options.workers),
      messenger(outside.options, outside.address.incarnation, outside.clock, membership, sessions,
                outbox, outside.metrics.counts(), tracing),
      gatherer([this](const PendingRequest& request) { messenger.SendAnswer(request); },
               [this, &liveness = outside.liveness](SessionId id, const std::vector<Rank>& late) {
                 return LateError(membership, liveness, id, late);
               }),
      failures(sessions, gatherer, messenger, outside.liveness, outside.metrics.counts(), tracing),
      access(outside.client_gate, outside.options.max_sessions_per_key, sessions),
      ender(outside.clock, timers, membership, sessions, gatherer, messenger, failures, broadcaster,
            outside.liveness, access, outside.metrics.counts()),
      leases(outside.options, outside.clock, timers, membership, sessions, messenger, failures,
             ender),
      takeover(outside.options, outside.clock, timers, sessions, messenger, broadcaster, access,
               outside.metrics.counts()),
      opener(outside.options, outside.clock, timers, membership, sessions, messenger, broadcaster,
             access, takeover, outside.metrics.counts(), tracing),
      commands({outside.options.flow_window_bytes, outside.options.max_batch_bytes}, outside.clock,
               timers, membership, sessions, gatherer, messenger, failures, ender, broadcaster,
               outside.metrics.counts(), tracing),
      output(outside.clock, sessions, messenger),
      waiters(outside.clock, timers, membership, sessions, messenger),
      world(outside.options, outside.address, outside.clock, order, membership, outside.liveness,
            outbox, outside.metrics.counts(), tracing,
            {sessions, gatherer, messenger, failures, ender, leases, takeover, opener}, waiters),
      admission(outside.clock, membership, outside.liveness, outside.reachability, outbox, world),
      inquiries([this](const Inquiry& inquiry) {
        if (inquiry.about_registers) return registers.Send(inquiry);
        status.Send(inquiry.client, inquiry.request, inquiry.reports);
      }),
      command_watch(outside.options.stuck_after, membership, outside.liveness, sessions, failures),
      status(outside.options, outside.clock, timers, membership, sessions, order, outside.liveness,
             inquiries, outbox, unread, outside.metrics),
      registers(outside.options, timers, membership, sessions, outside.liveness, inquiries, outbox,
                unread),
      traces(outside.options, outside.clock, membership, outside.liveness, outbox, unread,
             tracing) {}

}  // namespace lockstep::controller
