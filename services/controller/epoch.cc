#include "services/controller/epoch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::controller {

Epoch NewEpoch() {
  static std::atomic<uint64_t> last{0};
  const auto now = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                             std::chrono::system_clock::now().time_since_epoch())
                                             .count());
  uint64_t before = last.load();
  uint64_t next = 0;
  do {
    next = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, next));
  return Epoch(next);
}

}  // namespace lockstep::controller
