// Looks at a cluster on a thread of its own: whoever watches the screen is heard meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/control/input_waiter.h"
#include "tools/cli/top/rates.h"

namespace lockstep::cli {

// Threads: one, beside its own.
class Sampler {
 public:
  Sampler(ControllerAddress controller, std::chrono::milliseconds timeout)
      : controller_(std::move(controller)), timeout_(timeout) {}
  // Does not wait for a controller that does not answer.
  ~Sampler();

  // A sample is being taken, or was and is yet to be taken over.
  bool is_busy() const { return thread_.joinable(); }
  // Begins to take one. Not while it is busy.
  void Start();
  // The sample; none: it is not there yet.
  std::optional<StatusOr<Sample>> Take();

 private:
  const ControllerAddress controller_;
  const std::chrono::milliseconds timeout_;
  control::WakeUp cancel_;
  std::optional<StatusOr<Sample>> sample_;  // the thread's own until it is done
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

}  // namespace lockstep::cli
