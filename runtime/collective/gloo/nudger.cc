#include "runtime/collective/gloo/nudger.h"

#include <utility>

namespace lockstep::collective::gloo {
namespace {

constexpr std::chrono::milliseconds kInterval{20};
constexpr std::chrono::milliseconds kShortInterval{1};

}  // namespace

Nudger::Nudger() : thread_([this] { Run(); }) {}

Nudger::~Nudger() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Nudger::Handle Nudger::Add(Callback callback) {
  std::lock_guard lock(mutex_);
  return callbacks_.insert(callbacks_.end(), std::move(callback));
}

void Nudger::Remove(Handle handle) {
  std::lock_guard lock(mutex_);
  callbacks_.erase(handle);
}

void Nudger::Hurry(int more) {
  std::lock_guard lock(mutex_);
  hasty_ += more;
  if (more > 0) changed_.notify_all();
}

void Nudger::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, hasty_ > 0 ? kShortInterval : kInterval);
    for (const Callback& callback : callbacks_) callback();
  }
}

}  // namespace lockstep::collective::gloo
