#include "services/worker/report/arrival_log.h"

#include <algorithm>

#include "runtime/collective/call.h"

namespace lockstep::worker {
namespace {

// Programs repeat themselves: taking every 2^n-th would always meet the same of their collectives.
uint64_t HashOf(const CollectiveTime& time) {
  return collective::Mix(uint64_t{time.session.value} << 32 | time.generation.value, time.command);
}

}  // namespace

void ArrivalLog::Note(const CollectiveTime& time) {
  const uint64_t takes = takes_.load(std::memory_order_acquire);
  const uint64_t taken = taken_.load(std::memory_order_acquire);
  if (takes != seen_takes_) {
    const uint64_t new_takes = takes - seen_takes_;
    if (!raised_ && taken - seen_taken_ < new_takes * kCapacity / 4) {
      level_ -= static_cast<int>(std::min<uint64_t>(new_takes, static_cast<uint64_t>(level_)));
    }
    seen_takes_ = takes;
    seen_taken_ = taken;
    raised_ = false;
  }
  if ((HashOf(time) & ((uint64_t{1} << level_) - 1)) != 0) return;
  const uint64_t written = written_.load(std::memory_order_relaxed);
  if (written - taken == kCapacity) {
    if (!raised_ && level_ < kMostLevels) ++level_;
    raised_ = true;
    return;
  }
  ring_[written % kCapacity] = time;
  written_.store(written + 1, std::memory_order_release);
}

std::vector<CollectiveTime> ArrivalLog::Take() {
  std::vector<CollectiveTime> times;
  const uint64_t written = written_.load(std::memory_order_acquire);
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  for (; taken != written; ++taken) times.push_back(ring_[taken % kCapacity]);
  taken_.store(taken, std::memory_order_release);
  takes_.fetch_add(1, std::memory_order_release);
  return times;
}

}  // namespace lockstep::worker
