#include "runtime/collective/gloo/pending_message.h"

#include <chrono>
#include <exception>
#include <utility>

namespace lockstep::collective::gloo {

bool PendingMessage::Send(uint64_t tag) {
  try {
    buffer_->send(peer_, tag);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool PendingMessage::Receive(uint64_t tag) {
  receives_ = true;
  try {
    buffer_->recv(peer_, tag);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

PendingMessage::State PendingMessage::Wait() {
  // Never comes to that: see PeriodicWaker.
  constexpr std::chrono::hours kForever{24 * 365};
  try {
    const bool done =
        receives_ ? buffer_->waitRecv(nullptr, kForever) : buffer_->waitSend(nullptr, kForever);
    return done ? State::kDone : State::kUnderWay;
  } catch (const std::exception&) {
    return State::kLost;
  }
}

void PendingMessage::Wake() { receives_ ? buffer_->abortWaitRecv() : buffer_->abortWaitSend(); }

namespace {

constexpr std::chrono::milliseconds kInterval{20};
constexpr std::chrono::milliseconds kShortInterval{1};

}  // namespace

PeriodicWaker::PeriodicWaker() : thread_([this] { Run(); }) {}

PeriodicWaker::~PeriodicWaker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

PeriodicWaker::Handle PeriodicWaker::Add(Callback callback) {
  std::lock_guard lock(mutex_);
  return callbacks_.insert(callbacks_.end(), std::move(callback));
}

void PeriodicWaker::Remove(Handle handle) {
  std::lock_guard lock(mutex_);
  callbacks_.erase(handle);
}

void PeriodicWaker::AddBoost(int more) {
  std::lock_guard lock(mutex_);
  boosts_ += more;
  if (more > 0) changed_.notify_all();
}

void PeriodicWaker::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, boosts_ > 0 ? kShortInterval : kInterval);
    for (const Callback& callback : callbacks_) callback();
  }
}

}  // namespace lockstep::collective::gloo
