// Which of a session's collectives go on on the GPU, and how those end that are given up.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"

namespace lockstep::worker {

// A collective that the ranks have begun, and that this rank's GPU has yet to end.
struct CollectiveOnGpu {
  Generation generation;
  uint64_t command = 0;
  std::shared_ptr<collective::DeviceConnection> connection;
  // When the GPU comes to it, the collective is over.
  std::shared_ptr<collective::DeviceEvent> end;
  std::shared_ptr<collective::Accelerator> gpu;
  bool is_given_up = false;
  bool ends_after_others = false;  // its connection is aborted once the GPU is through with those
  // When the one before it by the same connection was over.
  Deadline::Clock::time_point previous_end = {};
};

// What a rank has executed before the command that failed, its peers have, too, and their GPUs come
// to it: so it ends well, and only then its connection is aborted.
//
// Threads: one at a time; the session's mutex sees to that.
class CollectivesOnGpu {
 public:
  void Begin(CollectiveOnGpu collective) { all_.push_back(std::move(collective)); }
  // The oldest one is over, and moved to `*ended`. False: it was cut off.
  bool End(CollectiveOnGpu* ended);

  // Those of that generation from a command on are to end, or all.
  void GiveUp(Generation generation, uint64_t from_command);
  void GiveUpAll();
  bool IsAnyGivenUp() const;
  // Ends those that are given up, each once.
  void AbortGivenUp(const Status& cause);

 private:
  std::deque<CollectiveOnGpu> all_;  // the oldest is in front
};

}  // namespace lockstep::worker
