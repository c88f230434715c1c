// Looks at a worker's GPU once a second: for metrics, and to say in the log what it reports.
#pragma once

#include <memory>

#include "runtime/collective/device.h"

namespace lockstep::worker {

// On a thread of its own, for a GPU that has fallen off the bus may never answer: nothing waits for
// it.
//
// Threads: Last() is safe from any.
class GpuWatch {
 public:
  explicit GpuWatch(std::unique_ptr<collective::DeviceMonitor> monitor);
  // Leaves a thread behind that the GPU keeps waiting.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // What was seen last.
  collective::DeviceReport Last() const;

  // A thread of this process was left behind.
  static bool AnyLeftBehind();

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace lockstep::worker
