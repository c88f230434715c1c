// Libraries that are loaded while the program runs, when they are needed first.
#pragma once

#include <mutex>
#include <utility>

#include "runtime/base/status.h"

namespace lockstep {

// What `load`, a function that gives a StatusOr<T>, gives when it succeeds first: kept for good,
// and given to all later calls. Failures are not kept: what is missing may come, a driver that is
// being installed say. Threads: safe.
template <typename T, typename Load>
StatusOr<const T*> LoadOnce(const Load& load) {
  static std::mutex mutex;
  static const T* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(T made, load());
    loaded = new T(std::move(made));
  }
  return loaded;
}

}  // namespace lockstep
