// Finds workers that wait for commands and do not get those that were sent: their connections are
// broken.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/control/worker_report.h"
#include "services/controller/common/clock.h"

namespace lockstep::controller {

// Threads: one at a time.
class ConnectionWatch {
 public:
  // `delivery_time`: how long a batch may take to a worker that does nothing else.
  ConnectionWatch(int workers, std::chrono::milliseconds delivery_time)
      : delivery_time_(delivery_time), waiting_(static_cast<size_t>(workers)) {}

  // All workers are ready: what was sent before is not due to those that have just come.
  void Restart(TimePoint now);
  // `ordered`: the number of the last batch. Called before the ranks are looked at, each time.
  void Begin(TimePoint now, uint64_t ordered);
  // True if the connection of `rank` is broken, as far as its worker's activity tells.
  // `is_due`: it is ready, and nothing but its connection keeps batches from it.
  bool IsBroken(Rank rank, bool is_due, const WorkerActivity& activity);
  // Its worker gets what was sent by another way: that may take the same time again.
  void Forgive(Rank rank);
  // Why a worker with this activity is given up, for people.
  std::string Describe(const WorkerActivity& activity) const;

 private:
  // Looks in a row that found a rank waiting for the same batch, and how far it was.
  struct Waiting {
    uint64_t received = 0;
    uint64_t launched = 0;
    int looks = 0;
    TimePoint forgiven_until{};
  };

  const std::chrono::milliseconds delivery_time_;
  // What every worker has got by now that waits for commands; and from the next due time on.
  uint64_t due_ = 0;
  uint64_t next_due_ = 0;
  Deadline next_due_at_ = Deadline::At({});
  TimePoint now_{};               // of the last Begin()
  std::vector<Waiting> waiting_;  // by rank
};

}  // namespace lockstep::controller
