// How a worker joins a cluster: it says who it is, and waits until it is told its place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// A worker's place in the world, as the controller gave it.
struct Place {
  Rank rank = 0;
  Epoch epoch;
  uint64_t watch = 0;  // names this joining in heartbeats
  std::string cluster;
  std::vector<std::string> segments;  // the arenas' names, by rank; empty: none
  std::string liveness_endpoint;
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds collective_timeout{0};
  uint64_t flow_window_bytes = 0;

  int world_size() const { return static_cast<int>(segments.size()); }
};

// What the worker offers.
struct Offer {
  std::string segment;
  std::string bulk_endpoint;
};

// Says hello, again and again, and waits for the welcome. kDeadlineExceeded if no controller
// answers, or not all workers join; kAborted once `stopping`, which is signalled by `wake_fd`; else
// the controller's refusal.
StatusOr<Place> Join(control::ClientChannel& channel, const WorkerOptions& options,
                     const Offer& offer, int wake_fd, const std::atomic<bool>& stopping,
                     Deadline deadline);

// Tells the controller that the communicator stands.
Status SendReady(control::ClientChannel& channel, Rank rank, std::string_view backend);

// Tells the controller that this worker ends, whether it was welcome or not.
Status SendGoodbye(control::ClientChannel& channel, const std::string& reason);

}  // namespace lockstep::worker
