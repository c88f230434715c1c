// How fast a cluster works: the difference of two of its statuses, which a thread of its own asks
// for, so that keys are read meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/admin.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::cli {

struct Sample {
  ClusterStatus status;
  std::chrono::steady_clock::time_point taken;
};

// What a worker did between two samples.
struct WorkerRates {
  double commands = 0;     // finished a second
  double collectives = 0;  // the same
  double bus_bytes = 0;    // a second, by nccl-tests' formulas; counted when a collective ends
  // Of the time: in collectives, that which is under way included, waiting for peers included.
  double collective_share = 0;
  uint64_t waiting_batches = 0;  // ordered, and not taken by the worker yet; now
  // To how many of the collectives it came last, and how long after the first, on average.
  double last_share = 0;
  std::chrono::nanoseconds late{0};
};

struct SessionRates {
  double commands = 0;    // sent to the workers a second
  double sent_bytes = 0;  // the same
};

struct ClusterRates {
  double seconds = 0;                  // between the samples; 0: there is one, and no rates
  double batches = 0;                  // ordered a second
  uint64_t compared = 0;               // collectives of which it is known which rank came last
  std::vector<WorkerRates> workers;    // as in the later sample's status
  std::vector<SessionRates> sessions;  // the same
};

// Counters that start again (a worker was replaced, the controller restarted) count from 0.
ClusterRates RatesBetween(const Sample& before, const Sample& after);

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
