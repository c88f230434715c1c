#include "runtime/control/direct/direct_inbox.h"

#include <utility>

namespace lockstep::control {

bool DirectInbox::Put(const Message& message, size_t most) {
  std::lock_guard lock(mutex_);
  if (messages_.size() >= most) return false;
  messages_.push_back(message);
  count_.store(messages_.size(), std::memory_order_release);
  if (std::exchange(sleeps_, false)) wake_up_.Signal();
  return true;
}

bool DirectInbox::Take(Message* message) {
  if (is_empty()) return false;
  std::lock_guard lock(mutex_);
  if (messages_.empty()) return false;
  *message = std::move(messages_.front());
  messages_.pop_front();
  count_.store(messages_.size(), std::memory_order_release);
  return true;
}

void DirectInbox::BeginSleep() {
  std::lock_guard lock(mutex_);
  sleeps_ = true;
}

void DirectInbox::EndSleep() {
  std::lock_guard lock(mutex_);
  sleeps_ = false;
  wake_up_.Clear();
}

}  // namespace lockstep::control
