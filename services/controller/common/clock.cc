#include "services/controller/common/clock.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/base/random.h"

namespace lockstep::controller {
namespace {

// The longest that a client may ask the controller to wait; more is cut to this.
constexpr uint64_t kLongestWaitMillis = uint64_t{24} * 3600 * 1000;

}  // namespace

Epoch EpochAt(std::chrono::milliseconds time_of_day, uint64_t random) {
  // A metric shows epochs as floating-point numbers, which are exact up to 53 bits: until 2039.
  constexpr int kRandomBits = 12;
  return Epoch(static_cast<uint64_t>(time_of_day.count()) << kRandomBits |
               (random & ((uint64_t{1} << kRandomBits) - 1)));
}

Epoch NewEpoch() {
  static std::atomic<uint64_t> last{0};
  const uint64_t now = EpochAt(std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::system_clock::now().time_since_epoch()),
                               RandomNumber())
                           .value;
  uint64_t before = last.load();
  uint64_t next = 0;
  do {
    next = std::max(now, before + 1);
  } while (!last.compare_exchange_weak(before, next));
  return Epoch(next);
}

Deadline Timers::After(uint64_t millis) {
  const Deadline deadline =
      Deadline::At(clock_.Now() + std::chrono::milliseconds(std::min(millis, kLongestWaitMillis)));
  next_ = next_.Earlier(Deadline::At(std::max(deadline.when(), handled_ + kResolution)));
  return deadline;
}

Deadline::Clock::duration Timers::Begin(TimePoint now) {
  return now - std::exchange(handled_, now);
}

void Timers::End(TimePoint now, Deadline next) {
  next_ = Deadline::At(std::max(next.when(), now + kResolution));
}

}  // namespace lockstep::controller
