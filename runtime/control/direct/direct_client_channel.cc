#include "runtime/control/direct/direct_client_channel.h"

#include <utility>

#include "runtime/control/direct/direct_server_channel.h"

namespace lockstep::control {

StatusOr<std::unique_ptr<ClientChannel>> DirectClientChannel::Connect(
    std::shared_ptr<DirectDoor> door) {
  auto inbox = std::make_shared<DirectInbox>();
  PeerName name;
  if (!door->loop.Turn([&] { name = door->clients->Add(inbox); })) {
    return Unavailable("the controller of this process has ended");
  }
  return std::unique_ptr<ClientChannel>(
      new DirectClientChannel(std::move(door), std::move(inbox), std::move(name)));
}

DirectClientChannel::~DirectClientChannel() {
  if (looking_ > 0 && !is_asleep_) door_->loop.EndLooking();
  (void)door_->loop.Turn([this] { door_->clients->Remove(name_); });
}

Status DirectClientChannel::Send(const Message& message) {
  using Then = SharedLoop::Then;
  const bool looks = looking_ > 0 && !is_asleep_;
  has_just_turned_ = door_->loop.Turn([&] { door_->clients->Put(name_, message); },
                                      looks ? Then::kTurnsAgain : Then::kLeaves);
  if (has_just_turned_) return OkStatus();
  return Unavailable("the controller of this process has ended");
}

bool DirectClientChannel::HasInput() {
  const bool has_just_turned = std::exchange(has_just_turned_, false);
  if (looking_ > 0 && !has_just_turned && inbox_->is_empty()) door_->loop.TryTurn();
  return !inbox_->is_empty();
}

bool DirectClientChannel::Receive(Message* message) { return HasInput() && inbox_->Take(message); }

void DirectClientChannel::BeginLooking() {
  if (looking_++ == 0 && !is_asleep_) door_->loop.BeginLooking();
}

void DirectClientChannel::EndLooking() {
  if (--looking_ == 0 && !is_asleep_) door_->loop.EndLooking();
}

void DirectClientChannel::BeginSleep() {
  is_asleep_ = true;
  inbox_->BeginSleep();
  if (looking_ > 0) door_->loop.EndLooking();
}

void DirectClientChannel::EndSleep() {
  is_asleep_ = false;
  inbox_->EndSleep();
  if (looking_ > 0) door_->loop.BeginLooking();
}

}  // namespace lockstep::control
