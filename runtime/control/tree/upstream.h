// What goes up from one worker: its own answers and those that it passes on, put together, and kept
// until the controller has them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/packet.h"

namespace lockstep::control {

// Threads: one at a time.
class Upstream {
 public:
  using Send = std::function<void(const Message&)>;
  // `send` hands a bundle to whichever connection leads up.
  explicit Upstream(Send send) : send_(std::move(send)) {}

  // Who this worker is; counts on from what it has said before.
  void Identify(uint64_t worker, const AnswerKey& key) {
    worker_ = worker;
    key_ = key;
  }
  // This worker's next message. It leaves with Flush().
  void Add(const Message& message);
  // A bundle of `child`, to be passed on. kInvalidArgument: it is none.
  Status PassOn(const PeerName& child, uint64_t number, const Message& bundle);
  // Sends all that there is, and tells how far packets were consumed here and below; nothing if
  // there is nothing to send, unless `tell_consumed`.
  void Flush(uint64_t world, uint64_t consumed, bool tell_consumed);
  // Another connection leads up: what may have been lost is sent again.
  void SendAgain();
  // Bundles up to `number` have arrived. Returns, by child, up to which of theirs was in them.
  std::map<PeerName, uint64_t> NoteTaken(uint64_t number);

  size_t kept() const { return kept_.size(); }

 private:
  struct Kept {
    uint64_t number = 0;
    Message bundle;
    std::map<PeerName, uint64_t> children;
  };

  void Leave(uint64_t world, uint64_t consumed);

  const Send send_;
  uint64_t worker_ = 0;
  AnswerKey key_;
  uint64_t answers_ = 0;  // number of this worker's last one
  uint64_t bundles_ = 0;  // number of the last one
  uint64_t world_ = 0;
  uint64_t consumed_ = 0;
  BundleWriter writer_;
  std::map<PeerName, uint64_t> children_;  // what is in the writer, as in Kept
  std::deque<Kept> kept_;
};

}  // namespace lockstep::control
