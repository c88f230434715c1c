#include "runtime/cuda/await.h"

#include <chrono>

#include "runtime/base/backoff.h"

namespace lockstep::cuda {
namespace {

using std::chrono::microseconds;

// At once for as long as a small kernel and its launch take.
constexpr Backoff::Pace kPace{microseconds(100), microseconds(10), microseconds(500)};

}  // namespace

Status Await(const collective::DeviceEvent& event, const collective::WaitLimit& limit,
             const char* what) {
  Backoff backoff(kPace);
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, event.IsDone());
    if (done) return OkStatus();
    if (limit.interrupted) LOCKSTEP_RETURN_IF_ERROR(limit.interrupted());
    if (limit.deadline.Expired()) {
      return DeadlineExceeded("the GPU has not finished ", what, " after ",
                              std::chrono::duration_cast<std::chrono::milliseconds>(
                                  Deadline::Clock::now() - backoff.began())
                                  .count(),
                              " ms");
    }
    backoff.Pause();
  }
}

}  // namespace lockstep::cuda
