// Where ranks that cannot talk yet tell each other how: at the controller, over the liveness
// socket.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/control/channel.h"
#include "schemas/membership.capnp.h"

namespace lockstep::worker {

// Threads: Exchange() and Enter() on the executing thread; the others from any.
class ControllerRendezvous final : public collective::Rendezvous {
 public:
  // As the welcome said, for the controller to know who speaks.
  struct Identity {
    Rank rank = 0;
    Epoch controller;
    uint64_t watch = 0;
  };
  using Send = std::function<void(control::Frame)>;

  // `send` is safe from any thread, and is not called once Close() has returned.
  ControllerRendezvous(Identity identity, Send send);

  // The ranks of this world meet from now on.
  void Enter(Epoch epoch) { epoch_ = epoch; }

  StatusOr<std::vector<std::string>> Exchange(uint64_t key, absl::Span<const Rank> members,
                                              const std::vector<std::string>& mine,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline) override;

  // The controller's, and the message's second frame: what was offered; empty while members are
  // missing.
  void Take(wire::Exchanged::Reader exchanged, const control::Frame& offered);
  // There is no controller any more.
  void Close();

 private:
  // What has come of the exchange under way.
  struct Progress {
    uint64_t number = 0;
    std::vector<Rank> missing;
    std::optional<std::vector<std::string>> answers;
  };

  void Say(uint64_t number, uint64_t key, absl::Span<const Rank> members,
           const std::vector<std::string>& offers);
  Status GiveUp(const Status& why);

  const Identity identity_;
  Epoch epoch_;
  uint64_t number_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  Send send_;  // null once closed
  Progress progress_;
};

}  // namespace lockstep::worker
