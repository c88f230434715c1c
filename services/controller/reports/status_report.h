// What clients are told of the cluster: who is there, what they do, and who is stuck; and a
// monitoring system the same in numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/command_rings.h"
#include "services/controller/common/command_tree.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/reports/inquiries.h"
#include "services/controller/reports/metrics.h"
#include "services/controller/reports/skew.h"
#include "services/controller/reports/unread_answers.h"
#include "services/controller/sessions/command_watch.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class StatusReport {
 public:
  StatusReport(const Tools& tools, Outbox& outbox, Liveness& liveness, const SessionTable& sessions,
               const BatchOrder& order, Inquiries& inquiries, UnreadAnswers& unread,
               Metrics& metrics, const CommandWatch& command_watch,
               const CommandRings& client_rings, const CommandRings& worker_rings,
               const CommandTree& worker_tree)
      : tools_(tools),
        outbox_(outbox),
        liveness_(liveness),
        sessions_(sessions),
        order_(order),
        inquiries_(inquiries),
        unread_(unread),
        metrics_(metrics),
        command_watch_(command_watch),
        client_rings_(client_rings),
        worker_rings_(worker_rings),
        worker_tree_(worker_tree),
        started_(tools.clock.Now()) {}

  // Where metrics are served, once that is known.
  void SetMetricsEndpoint(const std::string& endpoint) { metrics_endpoint_ = endpoint; }

  // Tells the client how things stand. `reports` of the workers by rank, or none.
  void Send(const control::PeerName& client, uint64_t request,
            const std::vector<control::Frame>& reports);
  // Asks the workers for reports first.
  Status Explain(const control::PeerName& client, uint64_t request);
  // If anything can ask for metrics.
  void UpdateMetrics();

 private:
  bool IsStuck(Rank rank, const LastHeard& heard) const;
  // `reports` as in Send().
  void WriteWorkers(capnp::List<wire::WorkerStatus>::Builder workers,
                    const Skew::Lateness& lateness,
                    const std::vector<control::Frame>& reports) const;
  void WriteSessions(capnp::List<wire::SessionStatus>::Builder sessions) const;

  const Tools& tools_;
  Outbox& outbox_;
  Liveness& liveness_;
  const SessionTable& sessions_;
  const BatchOrder& order_;
  Inquiries& inquiries_;
  UnreadAnswers& unread_;
  Metrics& metrics_;
  const CommandWatch& command_watch_;
  const CommandRings& client_rings_;
  const CommandRings& worker_rings_;
  const CommandTree& worker_tree_;
  const TimePoint started_;
  std::string metrics_endpoint_;
};

}  // namespace lockstep::controller
