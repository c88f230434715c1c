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
#include "services/worker/join/membership.h"
#include "services/worker/options.h"

namespace lockstep::worker {

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
  std::string bulk_key = {};  // by which that is known; empty: it asks for none
  std::string metrics_endpoint = {};
  std::optional<Inventory> inventory = {};  // none: it comes with nothing
};

// Says hello, again and again, and waits for the welcome. kDeadlineExceeded if no controller
// answers, or not all workers join: within `patience`; one that has an inventory waits for others
// as long as the controller answers, and `patience` without that. kAborted once `stopping`, which
// is signalled by `wake_fd`, and if the controller stops, in order: `sent_away` says why then. Else
// the controller's refusal.
StatusOr<Membership> Join(control::ClientChannel& channel, const WorkerOptions& options,
                          const Offer& offer, int wake_fd, const std::atomic<bool>& stopping,
                          std::chrono::milliseconds patience,
                          std::optional<std::string>* sent_away);

// Tells the controller that the communicator stands which the welcome asked for, and how it was
// chosen.
Status SendReady(control::ClientChannel& channel, const Membership& membership,
                 std::string_view backend, const std::string& why);

// Tells the controller that the ranks do not reach each other yet, and try again.
Status SendTrouble(control::ClientChannel& channel, const Membership& membership,
                   std::string_view why);

// Tells the controller that this worker ends, whether it was welcome or not.
Status SendGoodbye(control::ClientChannel& channel, const std::string& reason);

}  // namespace lockstep::worker
