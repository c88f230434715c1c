// The list of communicator backends: the one place that names them.
#pragma once

#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/arena.h"
#include "services/worker/join.h"

namespace lockstep::worker {

// Connects this rank with all others by the first backend that can serve them. kUnavailable lists
// what each backend lacks.
StatusOr<std::unique_ptr<collective::Communicator>> ConnectWorld(
    const Place& place, const std::shared_ptr<tensor::Arena>& arena, Deadline deadline);

}  // namespace lockstep::worker
