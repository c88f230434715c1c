// The list of communicator backends: the one place that names them.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/arena.h"
#include "services/worker/join.h"

namespace lockstep::worker {

// OK if this machine has what some backend needs; kUnavailable lists what each lacks.
Status AnyBackendAvailable();

// Connects this rank with all others by the first backend that is available. kUnavailable lists
// what each backend lacks, or names a rank that ended; kDeadlineExceeded names the ranks that did
// not come; kAborted once `cancelled` is true.
StatusOr<std::unique_ptr<collective::Communicator>> ConnectWorld(
    const Place& place, const std::shared_ptr<tensor::Arena>& arena,
    const std::atomic<bool>& cancelled, Deadline deadline);

}  // namespace lockstep::worker
