// Waiting for a GPU without being at its mercy.
#pragma once

#include "runtime/base/status.h"
#include "runtime/collective/device.h"

namespace lockstep::cuda {

// Returns when `event` is done. It looks again at once for a moment, then sleeps in between, so
// that a GPU that works long costs no processor. Errors: what Event::IsDone() says;
// `limit.interrupted`'s; kDeadlineExceeded says what was waited for.
Status Await(const collective::DeviceEvent& event, const collective::WaitLimit& limit,
             const char* what);

}  // namespace lockstep::cuda
