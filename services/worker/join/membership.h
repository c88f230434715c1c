// A worker's place in the world, as the controller gave it (schemas/membership.capnp, Welcome).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/session_record.h"
#include "runtime/control/shm/ring_handover.h"
#include "runtime/control/tree/tree_note.h"
#include "schemas/membership.capnp.h"

namespace lockstep::worker {

// A worker's heartbeats come with the controller's, which may be a little late: the longest time
// from one to the next.
inline std::chrono::milliseconds LongestBetweenHeartbeats(std::chrono::milliseconds interval) {
  return interval + interval / 16;
}

struct Membership {
  Rank rank = 0;
  Epoch epoch;
  Epoch controller;    // in which the controller was started
  uint64_t watch = 0;  // names this joining in heartbeats
  std::string cluster;
  std::vector<std::string> segments;  // the arenas' names, by rank; empty: none
  std::string liveness_endpoint;
  std::string client_endpoint;  // where the controller takes clients
  std::chrono::milliseconds heartbeat_interval{0};
  std::chrono::milliseconds collective_timeout{0};
  uint64_t flow_window_bytes = 0;
  uint64_t sequence = 0;                         // of the last batch before the welcome
  std::vector<control::SessionRecord> sessions;  // that are open
  bool forget = false;                           // what was kept of them is out of date
  bool controller_is_here = false;               // its clock is this host's
  std::string communicator = "auto";             // or the backend that the operator has chosen
  control::RingOffer ring;                       // the memory that commands can come through
  control::TreeOffer tree;                       // the workers that they can come through

  int world_size() const { return static_cast<int>(segments.size()); }
};

// Reads a welcome that came in an envelope of `epoch`, and the message's second frame, `arenas`.
// kInternal if it makes no sense; kInvalidArgument: the frame is no message of Arenas.
StatusOr<Membership> ReadWelcome(Epoch epoch, wire::Welcome::Reader welcome,
                                 const control::Frame& arenas);

}  // namespace lockstep::worker
