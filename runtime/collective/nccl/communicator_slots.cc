#include "runtime/collective/nccl/communicator_slots.h"

#include <algorithm>
#include <chrono>

namespace lockstep::collective::nccl {
namespace {

// How late an abort may be noticed.
constexpr std::chrono::milliseconds kLookAgain{5};

}  // namespace

std::shared_ptr<void> CommunicatorSlots::Take(Deadline deadline,
                                              const std::atomic<bool>* cancelled) {
  std::unique_lock lock(mutex_);
  while (taken_ >= most_) {
    if (deadline.Expired() || (cancelled != nullptr && *cancelled)) return nullptr;
    changed_.wait_until(lock, std::min(deadline.when(), Deadline::Clock::now() + kLookAgain));
  }
  return TakeNow();
}

std::shared_ptr<void> CommunicatorSlots::TakeAnyway() {
  std::lock_guard lock(mutex_);
  return TakeNow();
}

std::shared_ptr<void> CommunicatorSlots::TakeNow() {
  ++taken_;
  return {this, [self = shared_from_this()](void*) { self->GiveBack(); }};
}

void CommunicatorSlots::GiveBack() {
  std::lock_guard lock(mutex_);
  --taken_;
  changed_.notify_all();
}

int CommunicatorSlots::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace lockstep::collective::nccl
