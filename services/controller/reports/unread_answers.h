// What clients were told and have not taken yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"

namespace lockstep::controller {

// A client that asks and never reads the answers would have them fill the controller's memory. The
// transport lets go of a frame when it has handed it to the network, and that is counted.
//
// Threads: one at a time. Frames may go in any thread, and outlive this.
class UnreadAnswers {
 public:
  // The largest answer is of a few megabytes.
  static constexpr size_t kMostOfOne = size_t{8} << 20;
  static constexpr size_t kMostOfAll = size_t{256} << 20;

  // OK if `client` may ask something that has a long answer; one that has read all that it asked
  // for always may. kResourceExhausted.
  Status CheckRoom(const control::PeerName& client) const;

  // The same frames, which count as long as any of their copies lives.
  control::Message Charge(const control::PeerName& client, const control::Message& message);

  // Clients that memory is kept for: never many more than twice those that have something unread.
  size_t clients() const { return counts_.size(); }

 private:
  using Count = std::shared_ptr<std::atomic<size_t>>;

  // Forgets those who have taken everything, or are gone.
  void Sweep();

  std::map<control::PeerName, Count> counts_;
  Count all_ = std::make_shared<std::atomic<size_t>>(0);
  size_t sweep_at_ = 64;
};

}  // namespace lockstep::controller
