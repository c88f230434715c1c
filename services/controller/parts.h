// The parts of a controller, put together: each owns its state, and knows neither sockets nor
// threads nor the system's clock. What other threads are asked or read, too (liveness,
// reachability, metrics), is given from outside.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/control/keys/gate.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/command_rings.h"
#include "services/controller/common/command_tree.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/common/tracing.h"
#include "services/controller/options.h"
#include "services/controller/reports/inquiries.h"
#include "services/controller/reports/metrics.h"
#include "services/controller/reports/register_report.h"
#include "services/controller/reports/status_report.h"
#include "services/controller/reports/trace_service.h"
#include "services/controller/reports/unread_answers.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/command_watch.h"
#include "services/controller/sessions/fragment_grants.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/key_access.h"
#include "services/controller/sessions/output_relay.h"
#include "services/controller/sessions/session_commands.h"
#include "services/controller/sessions/session_ender.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_leases.h"
#include "services/controller/sessions/session_opener.h"
#include "services/controller/sessions/session_table.h"
#include "services/controller/sessions/session_takeover.h"
#include "services/controller/world/admission.h"
#include "services/controller/world/ready_waiters.h"
#include "services/controller/world/world.h"

namespace lockstep::controller {

// What the parts are given from outside, which outlives them.
struct Surroundings {
  const ControllerOptions& options;
  const Clock& clock;
  ClientProcesses& processes;
  Liveness& liveness;
  Reachability& reachability;
  CommandRings& client_rings;
  CommandRings& worker_rings;
  CommandTree& worker_tree;
  Metrics& metrics;
  std::shared_ptr<control::Gate> client_gate;  // null: no client is asked for a key
  ControllerAddress address;
};

// In the order in which each needs those before it.
//
// Threads: one at a time.
struct Parts {
  explicit Parts(const Surroundings& outside);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Outbox outbox;
  Timers timers;
  Tracing tracing;
  Membership membership;
  BatchOrder order;
  Broadcaster broadcaster;
  const Tools tools;

  SessionTable sessions;
  ClientMessenger messenger;
  Gatherer gatherer;
  SessionFailures failures;
  CommandWatch command_watch;
  KeyAccess access;
  SessionEnder ender;
  SessionLeases leases;
  SessionTakeover takeover;
  SessionOpener opener;
  SessionCommands commands;
  FragmentGrants grants;
  OutputRelay output;

  ReadyWaiters waiters;
  World world;
  Admission admission;

  UnreadAnswers unread;
  Inquiries inquiries;
  StatusReport status;
  RegisterReport registers;
  TraceService traces;
};

}  // namespace lockstep::controller
