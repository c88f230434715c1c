#include "services/controller/parts.h"

#include <vector>

namespace lockstep::controller {

Parts::Parts(const Surroundings& outside)
    : timers(outside.clock),
      tracing(outside.clock, outside.options.workers),
      membership(outside.options.cluster, outside.options.workers),
      broadcaster(outside.clock, membership, order, outbox, tracing),
      tools{outside.options, outside.clock, timers,           membership,
            outbox,          broadcaster,   outside.liveness, outside.metrics.counts(),
            tracing},
      sessions(outside.options.workers),
      messenger(tools, outside.address.incarnation, sessions),
      gatherer([this](const PendingRequest& request) { messenger.SendAnswer(request); },
               [this](SessionId id, const std::vector<Rank>& late) {
                 return LateError(tools, id, late);
               }),
      failures(tools, sessions, gatherer, messenger),
      access(outside.client_gate, outside.options.max_sessions_per_key, sessions),
      ender(tools, sessions, gatherer, messenger, failures, access),
      leases(tools, sessions, messenger, failures, ender),
      takeover(tools, sessions, messenger, access),
      opener(tools, sessions, messenger, access, takeover),
      commands(tools, sessions, gatherer, messenger, failures, ender),
      output(tools, sessions, messenger),
      waiters(tools, sessions, messenger),
      world(tools, membership, order, outside.address,
            {sessions, gatherer, messenger, failures, ender, leases, takeover, opener}, waiters),
      admission(tools, membership, outside.reachability, world),
      inquiries([this](const Inquiry& inquiry) {
        if (inquiry.about_registers) return registers.Send(inquiry);
        status.Send(inquiry.client, inquiry.request, inquiry.reports);
      }),
      command_watch(tools, sessions, failures),
      status(tools, sessions, order, inquiries, unread, outside.metrics),
      registers(tools, sessions, inquiries, unread),
      traces(tools, unread) {}

}  // namespace lockstep::controller
