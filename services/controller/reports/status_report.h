// What clients are told of the cluster: who is there, what they do, and who is stuck; and a
// monitoring system the same in numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/frame.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/options.h"
#include "services/controller/reports/inquiries.h"
#include "services/controller/reports/metrics.h"
#include "services/controller/reports/unread_answers.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class StatusReport {
 public:
  StatusReport(const ControllerOptions& options, const Clock& clock, Timers& timers,
               const Membership& membership, const SessionTable& sessions, const BatchOrder& order,
               Liveness& liveness, Inquiries& inquiries, Outbox& outbox, UnreadAnswers& unread,
               Metrics& metrics)
      : options_(options),
        clock_(clock),
        started_(clock.Now()),
        timers_(timers),
        membership_(membership),
        sessions_(sessions),
        order_(order),
        liveness_(liveness),
        inquiries_(inquiries),
        outbox_(outbox),
        unread_(unread),
        metrics_(metrics) {}

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
  void WriteWorkers(capnp::List<wire::WorkerStatus>::Builder workers,
                    const std::vector<control::Frame>& reports) const;
  void WriteSessions(capnp::List<wire::SessionStatus>::Builder sessions) const;

  const ControllerOptions& options_;
  const Clock& clock_;
  const TimePoint started_;
  Timers& timers_;
  const Membership& membership_;
  const SessionTable& sessions_;
  const BatchOrder& order_;
  Liveness& liveness_;
  Inquiries& inquiries_;
  Outbox& outbox_;
  UnreadAnswers& unread_;
  Metrics& metrics_;
  std::string metrics_endpoint_;
};

}  // namespace lockstep::controller
