// How a worker joins a cluster: it says who it is, and waits until it is told its place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/session_record.h"
#include "schemas/membership.capnp.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// A worker's place in the world, as the controller gave it (schemas/membership.capnp, Welcome).
struct Place {
  Rank rank = 0;
  Epoch epoch;
  Epoch controller;    // in which the controller was started
  uint64_t watch = 0;  // names this joining in heartbeats
  std::string cluster;
  std::vector<std::string> segments;  // the arenas' names, by rank; empty: none
  std::string liveness_endpoint;
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds collective_timeout{0};
  uint64_t flow_window_bytes = 0;
  uint64_t sequence = 0;                         // of the last batch before the welcome
  std::vector<control::SessionRecord> sessions;  // that are open
  bool forget = false;                           // what was kept of them is out of date
  bool controller_is_here = false;               // its clock is this host's
  std::string communicator = "auto";             // or the backend that the operator has chosen

  int world_size() const { return static_cast<int>(segments.size()); }
};

// What a worker has kept of the time under a controller that was lost.
struct Inventory {
  Rank rank = 0;
  Epoch controller;
  Epoch epoch;
  Epoch worked_epoch;  // the same of when it has executed something last
  int world_size = 1;
  std::vector<control::SessionRecord> sessions;
};

// What the worker offers.
struct Offer {
  std::string segment = {};
  std::string activity_segment = {};
  std::string bulk_endpoint = {};
  std::string metrics_endpoint = {};
  std::optional<Inventory> inventory = {};  // none: it comes with nothing
};

// Says hello, again and again, and waits for the welcome. kDeadlineExceeded if no controller
// answers, or not all workers join: within `patience`; one that has an inventory waits for others
// as long as the controller answers, and `patience` without that. kAborted once `stopping`, which
// is signalled by `wake_fd`; else the controller's refusal.
StatusOr<Place> Join(control::ClientChannel& channel, const WorkerOptions& options,
                     const Offer& offer, int wake_fd, const std::atomic<bool>& stopping,
                     std::chrono::milliseconds patience);

// Reads a welcome that came in an envelope of `epoch`. kInternal if it makes no sense.
StatusOr<Place> ReadWelcome(Epoch epoch, wire::Welcome::Reader welcome);

// Tells the controller that the communicator stands which the welcome asked for, and how it was
// chosen.
Status SendReady(control::ClientChannel& channel, const Place& place, std::string_view backend,
                 const std::string& why);

// Tells the controller that the ranks do not reach each other yet, and try again.
Status SendTrouble(control::ClientChannel& channel, const Place& place, std::string_view why);

// Tells the controller that this worker ends, whether it was welcome or not.
Status SendGoodbye(control::ClientChannel& channel, const std::string& reason);

}  // namespace lockstep::worker
