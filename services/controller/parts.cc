#include "services/controller/parts.h"

#include <vector>

namespace lockstep::controller {

Parts::Parts(const Surroundings& outside)
    : timers(outside.clock),
      tracing(outside.clock, outside.options.workers),
      membership(outside.options.cluster, outside.options.workers,
                 outside.options.replacement_hint),
      broadcaster(outside.clock, membership, order, outbox, tracing),
      tools{outside.options, outside.clock, timers, membership, outside.metrics.counts(), tracing},
      sessions(outside.options.workers),
      messenger(tools, outbox, outside.address.incarnation, sessions, outside.client_rings),
      gatherer([this](const PendingRequest& request) { messenger.SendAnswer(request); },
               [this, &liveness = outside.liveness](SessionId id, const std::vector<Rank>& late) {
                 return LateError(membership, liveness, sessions, id, late);
               }),
      failures(tools, outside.liveness, sessions, gatherer, messenger),
      command_watch(tools, outside.liveness, sessions, failures),
      access(outside.client_gate, outside.options.max_sessions_per_key, sessions),
      ender(tools, broadcaster, outside.liveness, sessions, gatherer, messenger, failures, access),
      leases(tools, sessions, messenger, failures, ender),
      takeover(tools, outside.processes, broadcaster, sessions, messenger, access),
      opener(tools, outside.processes, broadcaster, sessions, messenger, access, takeover),
      commands(tools, broadcaster, sessions, gatherer, messenger, failures, ender),
      grants(tools, broadcaster, sessions, gatherer, messenger, failures),
      output(tools, sessions, messenger),
      waiters(tools, messenger),
      world(tools, outbox, outside.liveness, membership, order, outside.address,
            {sessions, gatherer, messenger, failures, ender, leases, takeover, opener}, waiters,
            outside.worker_rings, outside.worker_tree),
      admission(tools, outbox, outside.liveness, membership, outside.reachability, world),
      inquiries([this](const Inquiry& inquiry) {
        if (inquiry.about_registers) return registers.Send(inquiry);
        status.Send(inquiry.client, inquiry.request, inquiry.reports);
      }),
      status(tools, outbox, outside.liveness, sessions, order, inquiries, unread, outside.metrics,
             command_watch, outside.client_rings, outside.worker_rings, outside.worker_tree),
      registers(tools, outbox, outside.liveness, sessions, inquiries, unread),
      traces(tools, tracing, outbox, outside.liveness, unread) {}

}  // namespace lockstep::controller
