// A client's channel to the controller of its own process.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/direct/direct_door.h"
#include "runtime/control/direct/direct_inbox.h"

namespace lockstep::control {

// Send() does the controller's work of it, on the caller's thread: what it has to say to workers
// has been said when it returns, unless very much else was there to do, which the controller's own
// thread does then. So does a thread that looks for an answer.
//
// Threads: one at a time.
class DirectClientChannel final : public ClientChannel {
 public:
  // kUnavailable: the controller has ended.
  static StatusOr<std::unique_ptr<ClientChannel>> Connect(std::shared_ptr<DirectDoor> door);
  ~DirectClientChannel() override;

  bool HasInput() override;
  int wait_fd() const override { return inbox_->wait_fd(); }
  // What comes makes wait_fd() readable between BeginSleep() and EndSleep() only.
  bool drained() const override { return false; }
  void BeginSleep() override;
  void EndSleep() override;
  void BeginLooking() override;
  void EndLooking() override;
  bool by_memory() const override { return door_->loop.by_memory(); }
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;

 private:
  DirectClientChannel(std::shared_ptr<DirectDoor> door, std::shared_ptr<DirectInbox> inbox,
                      PeerName name)
      : door_(std::move(door)), inbox_(std::move(inbox)), name_(std::move(name)) {}

  const std::shared_ptr<DirectDoor> door_;
  const std::shared_ptr<DirectInbox> inbox_;
  const PeerName name_;
  int looking_ = 0;               // as often as BeginLooking() was called and EndLooking() was not
  bool is_asleep_ = false;        // between BeginSleep() and EndSleep(): what comes is to wake it
  bool has_just_turned_ = false;  // the loop: Send() has, and nothing was asked for since
};

}  // namespace lockstep::control
