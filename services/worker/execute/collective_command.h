// Executes collective commands: from registers and shapes to a communicator's buffers.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/activity_page.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/report/command_spans.h"
#include "services/worker/report/transfer_counts.h"

namespace lockstep::worker {

// What a collective command works with on this worker.
struct CollectiveContext {
  Rank rank = 0;  // of this worker in the world
  int world_size = 1;
  const WorldLinks& world;
  const tensor::Processors& places;
  SessionState& session;
  control::ActivityPage& activity;
  Deadline deadline;
  // Of one collective: where a command has several, with functions between them, each has its own.
  std::chrono::milliseconds timeout{0};
  // Its number in the session: an abort tells from which one on commands are given up.
  uint64_t command = 0;
  // Where the steps of a command are recorded; null: nowhere.
  CommandSpans* spans = nullptr;
};

struct CollectiveOutcome {
  CollectiveFacts facts;
  // Where it goes on, on the GPU: how long it takes is known when it is done there. Null: it is
  // done.
  std::shared_ptr<collective::DeviceConnection> connection;
};

// Executes `command` as this rank's part. kInvalidArgument for registers that hold no tensor, and
// for dtypes, shapes or ranks that do not fit together. `*outcome`, if given, says what it
// was, after an error what was begun.
Status ExecuteCollective(const CollectiveContext& context,
                         wire::Command::Collective::Reader command,
                         CollectiveOutcome* outcome = nullptr);

}  // namespace lockstep::worker
