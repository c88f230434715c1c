// How communicators end: NCCL takes its time for that, for ever if the GPU is stuck, so operations
// do not wait for it.
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::collective::nccl {

// Does `end` on a thread of its own, which keeps what `end` holds until it is over. Without a
// thread to be had, it is not done, and what it holds is kept until the process ends.
void EndOnThread(std::function<void()> end);

// Aborts `connection` when the GPU has come to `before` (null: at once), so that what was put in
// until then is not cut off here; and a second later, for its peers may be behind, and what NCCL
// has yet to send them goes with an abort. Returns at once.
void AbortAfter(std::shared_ptr<DeviceConnection> connection, std::shared_ptr<cuda::Gpu> gpu,
                std::shared_ptr<DeviceEvent> before, Status cause);

// Keeps what NCCL may use until the process ends.
void LeaveBehind(std::shared_ptr<void> kept);

// True once all that have begun to end are gone. To be called before a process ends, so that what
// can end in order does. Threads: safe.
bool AwaitEndings(Deadline deadline);

}  // namespace lockstep::collective::nccl
