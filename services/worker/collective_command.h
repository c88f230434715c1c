// Executes collective commands: from registers and shapes to a communicator's buffers.
#pragma once

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/control/activity_page.h"
#include "runtime/tensor/storage.h"
#include "schemas/control.capnp.h"
#include "services/worker/session_state.h"
#include "services/worker/transfer_counts.h"

namespace lockstep::worker {

// What a collective command works with on this worker.
struct CollectiveContext {
  Rank rank = 0;  // of this worker in the world
  int world_size = 1;
  collective::Communicator& world;
  tensor::Allocator& allocator;
  SessionState& session;
  control::ActivityPage& activity;
  Deadline deadline;
};

// Executes `command` as this rank's part. kInvalidArgument for registers that hold no tensor, and
// for dtypes, shapes or ranks that do not fit together. `*facts`, if given, says after OK what it
// was.
Status ExecuteCollective(const CollectiveContext& context,
                         wire::Command::Collective::Reader command,
                         CollectiveFacts* facts = nullptr);

}  // namespace lockstep::worker
