#include "runtime/collective/gloo/pending.h"

#include <chrono>
#include <exception>

namespace lockstep::collective::gloo {

bool Pending::Send(uint64_t tag) {
  try {
    buffer_->send(peer_, tag);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool Pending::Receive(uint64_t tag) {
  receives_ = true;
  try {
    buffer_->recv(peer_, tag);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Pending::State Pending::Wait() {
  // Never comes to that: see Nudger.
  constexpr std::chrono::hours kForever{24 * 365};
  try {
    const bool done =
        receives_ ? buffer_->waitRecv(nullptr, kForever) : buffer_->waitSend(nullptr, kForever);
    return done ? State::kDone : State::kUnderWay;
  } catch (const std::exception&) {
    return State::kLost;
  }
}

void Pending::Nudge() { receives_ ? buffer_->abortWaitRecv() : buffer_->abortWaitSend(); }

}  // namespace lockstep::collective::gloo
