// Asks a controller how its cluster is doing, again and again.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/admin.h"
#include "runtime/control/channel.h"

namespace lockstep::client {

// GetClusterStatus() makes a connection, with threads of its own, for each question; here they are
// kept from one to the next, for one who asks every few milliseconds.
//
// Threads: one at a time.
class StatusQuery {
 public:
  explicit StatusQuery(ControllerAddress controller) : controller_(std::move(controller)) {}

  // As GetClusterStatus(). After an error, the next question has a new connection, so that no
  // answer comes for an earlier question.
  StatusOr<ClusterStatus> Ask(std::chrono::milliseconds timeout);

 private:
  StatusOr<ClusterStatus> AskOver(control::ClientChannel& channel,
                                  std::chrono::milliseconds timeout) const;

  const ControllerAddress controller_;
  std::unique_ptr<control::ClientChannel> channel_;  // null: none
};

}  // namespace lockstep::client
