// Waiting for a GPU without being at its mercy.
#pragma once

#include <functional>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/cuda/stream.h"

namespace lockstep::cuda {

// What a wait ends early for, and when it gives up: a kernel may never end, and cannot be made to.
struct Patience {
  Deadline deadline;
  // Asked now and then; not OK: the wait ends with it. May be empty.
  std::function<Status()> interrupted = {};
};

// Returns when `event` is done. It looks again at once for a moment, then sleeps in between, so
// that a GPU that works long costs no processor. Errors: what Event::IsDone() says;
// `patience.interrupted`'s; kDeadlineExceeded says what was waited for.
Status Await(const Event& event, const Patience& patience, const char* what);

}  // namespace lockstep::cuda
