#include "runtime/control/direct/shared_loop.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace lockstep::control {
namespace {

// Of one thread that has brought one message; the loop's own thread does what is left.
constexpr int kMostTurns = 4;

// This process was forked from one that has loops, and has neither their threads nor a right to
// what they share with others.
std::atomic<bool> is_forked_child{false};

void NoticeForks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true); });
  (void)registered;
}

}  // namespace

void SharedLoop::Open(std::vector<Channel*> channels, WakeUp& wake_up, Work work) {
  NoticeForks();
  std::lock_guard lock(mutex_);
  channels_ = std::move(channels);
  wake_up_ = &wake_up;
  work_ = std::move(work);
  is_open_ = true;
}

void SharedLoop::Close() {
  is_open_ = false;
  channels_.clear();
  work_ = {};
}

// --- Its own thread.

bool SharedLoop::StaysAwake() { return looking_ == 0 && !was_turned_; }

Deadline SharedLoop::BeginSleep(Deadline until) {
  sleeps_ = true;
  // Others may have made it earlier since `until` was asked for.
  sleeps_until_ = until.Earlier(work_.next_turn());
  was_turned_ = false;
  if (looking_ == 0) Arm();
  return sleeps_until_;
}

bool SharedLoop::EndSleep() {
  sleeps_ = false;
  const bool was_called = std::exchange(is_called_, false);
  if (was_called) wake_up_->Clear();
  // Also where others look: what has woken it must not wake it again.
  Disarm(Who::kSleeper);
  return was_called;
}

void SharedLoop::Arm() {
  is_armed_ = true;
  for (Channel* const channel : channels_) channel->BeginSleep();
}

void SharedLoop::Disarm(Who who) {
  is_armed_ = false;
  for (Channel* const channel : channels_) {
    if (who == Who::kSleeper) {
      channel->EndSleep();
    } else {
      channel->CancelSleep();
    }
  }
}

// --- Other threads.

// What the system has to say wakes its own thread, which sleeps.
bool SharedLoop::HasInput() {
  return std::any_of(channels_.begin(), channels_.end(), [](Channel* channel) {
    return !channel->drained() && channel->HasInputAtHand();
  });
}

void SharedLoop::HandOver() {
  was_turned_ = true;
  by_memory_.store(work_.by_memory(), std::memory_order_relaxed);
  if (!sleeps_) return;  // it looks itself before it sleeps
  // While others look, they see what comes; but a thread that looks may be about to go.
  const bool is_early = work_.next_turn().when() < sleeps_until_.when();
  if (is_early || (looking_ == 0 && HasInput())) Call();
}

void SharedLoop::Call() {
  if (!std::exchange(is_called_, true)) wake_up_->Signal();
}

bool SharedLoop::Turn(absl::FunctionRef<void()> before, Then then) {
  if (is_forked_child) return false;
  std::lock_guard lock(mutex_);
  if (!is_open_) return false;
  before();
  const int most = then == Then::kTurnsAgain ? 1 : kMostTurns;
  for (int turns = 0; turns < most && work_.turn(); ++turns) {
  }
  HandOver();
  return true;
}

void SharedLoop::TryTurn() {
  if (is_forked_child) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !is_open_) return;
  (void)work_.turn();
  HandOver();
}

void SharedLoop::BeginLooking() {
  if (is_forked_child) return;
  std::lock_guard lock(mutex_);
  if (looking_++ == 0 && is_armed_) Disarm(Who::kOther);
}

void SharedLoop::EndLooking() {
  if (is_forked_child) return;
  std::lock_guard lock(mutex_);
  --looking_;
  if (!is_open_) return;
  if (looking_ > 0) {
    // What this thread has said last, and has not turned the loop for since (Then).
    (void)work_.turn();
    HandOver();
    return;
  }
  if (!sleeps_) return;
  Arm();
  if (HasInput()) Call();
}

}  // namespace lockstep::control
