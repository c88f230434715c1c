// Waiting for a peer: spin, yield, sleep; until it comes, the deadline passes, or an abort.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/shm/block.h"
#include "runtime/collective/shm/shm.h"

namespace lockstep::collective::shm {

enum class Outcome { kReady, kExpired, kAborted, kLost };

// How hard to look for peers that are lost.
enum class Look {
  kGlance,   // memory only: those that gave up
  kClosely,  // with system calls: those whose processes have ended, too
};

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits for what has no bell to sleep on, such as other processes that start: calls `ready` until
// it is true or the deadline has passed; false means the latter. Eager at first, because ranks
// mostly start together, then ever more patient.
template <typename Ready>
bool Poll(Ready ready, Deadline deadline) {
  constexpr int kYields = 100;
  constexpr auto kLongestNap = std::chrono::microseconds(1000);
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    sched_yield();
  }
  for (auto nap = std::chrono::microseconds(20);; nap = std::min(2 * nap, kLongestNap)) {
    if (ready()) return true;
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(nap);
  }
}

// Threads: one waits; Abort() and Ring() may come from any other.
class Waiter {
 public:
  // `attention` is this rank's, in its block. `world_size` decides whether spinning is of use.
  Waiter(const WaitPolicy& policy, int world_size, Attention& attention);

  // True as soon as `ready()` is; false if that takes longer than spinning is worth.
  template <typename Ready>
  bool Spin(Ready ready) const {
    for (int i = 0; i < spins_; ++i) {
      if (ready()) return true;
      Pause();
    }
    return ready();
  }

  // Waits without wasting time of others. `whom` is who rings this rank's bell when it makes
  // `ready()` true, or gives up (its rank + 1, or kAnyRank). `lost(look)` says whether waiting is
  // in vain; it is asked for a glance whenever the bell has rung, and to look closely now and then,
  // and once before the deadline ends the wait.
  template <typename Ready, typename Lost>
  Outcome Sleep(Ready ready, uint32_t whom, Deadline deadline, Lost lost);

  // Makes this and every later Sleep() return kAborted. The first cause wins.
  void Abort(const Status& cause);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  Status cause() const;

  // Wakes the rank whose `attention` it is, if it sleeps for `self`. The caller's news are visible
  // to it before (a full fence stands between them and this).
  static void Wake(Attention& attention, uint32_t self) {
    const uint32_t waiting_for = attention.waiting_for.load(std::memory_order_relaxed);
    if (waiting_for == self || waiting_for == kAnyRank) [[unlikely]]
      Ring(attention);
  }

 private:
  // Looking at the clock costs as much as a yield: only now and then.
  static constexpr int kYieldsPerLook = 8;

  static void Ring(Attention& attention);
  // What becomes of a wait that is over for lack of time, or of a peer.
  template <typename Ready, typename Lost>
  static Outcome Conclude(Ready ready, Lost lost, Outcome otherwise);
  // Sleeps until the bell's value is not `heard`, at most `timeout`.
  void WaitForBell(uint32_t heard, Deadline::Clock::duration timeout);

  const int spins_;
  const std::chrono::microseconds yield_for_;
  const Deadline::Clock::duration look_after_;
  Attention& attention_;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  Status cause_;  // guarded by mutex_
};

void YieldProcessor();

template <typename Ready, typename Lost>
Outcome Waiter::Conclude(Ready ready, Lost lost, Outcome otherwise) {
  const bool in_vain = lost(Look::kClosely);
  // A peer that did its part and then left has left no rank waiting.
  if (ready()) return Outcome::kReady;
  return in_vain ? Outcome::kLost : otherwise;
}

template <typename Ready, typename Lost>
Outcome Waiter::Sleep(Ready ready, uint32_t whom, Deadline deadline, Lost lost) {
  // The yielding begins when the clock is first looked at: most waits are over before.
  Deadline::Clock::time_point sleep_at = Deadline::Clock::time_point::max();
  for (int i = 1;; ++i) {
    if (ready()) return Outcome::kReady;
    if (aborted()) return Outcome::kAborted;
    YieldProcessor();
    if (i % kYieldsPerLook != 0) continue;
    const auto now = Deadline::Clock::now();
    if (now >= deadline.when()) return Conclude(ready, lost, Outcome::kExpired);
    if (i == kYieldsPerLook) sleep_at = now + yield_for_;
    if (now >= sleep_at) break;
  }
  for (;;) {
    const uint32_t heard = attention_.bell.load(std::memory_order_acquire);
    attention_.waiting_for.store(whom, std::memory_order_relaxed);
    // Either the peer sees that we wait, or we see what it did: both have a full fence between.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::optional<Outcome> outcome;
    if (ready()) {
      outcome = Outcome::kReady;
    } else if (aborted()) {
      outcome = Outcome::kAborted;
    } else if (lost(Look::kGlance)) {
      outcome = ready() ? Outcome::kReady : Outcome::kLost;
    } else if (deadline.Expired()) {
      outcome = Conclude(ready, lost, Outcome::kExpired);
    } else {
      const Deadline::Clock::duration left = deadline.Remaining();
      WaitForBell(heard, std::min(left, look_after_));
      const bool rang = attention_.bell.load(std::memory_order_relaxed) != heard;
      if (!rang && left >= look_after_ && lost(Look::kClosely)) {
        outcome = ready() ? Outcome::kReady : Outcome::kLost;
      }
    }
    attention_.waiting_for.store(kNoRank, std::memory_order_relaxed);
    if (outcome.has_value()) return *outcome;
  }
}

}  // namespace lockstep::collective::shm
