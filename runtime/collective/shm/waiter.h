// Waiting for a peer: spin, yield, sleep; until it comes, the deadline passes, or somebody aborts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/shm/block.h"
#include "runtime/collective/shm/shm.h"

namespace lockstep::collective::shm {

enum class Outcome { kReady, kExpired, kAborted, kLost };

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
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
  // `ready()` true (its rank + 1, or kAnybody). `lost()` is asked now and then whether waiting is
  // in vain.
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
    if (waiting_for == self || waiting_for == kAnybody) [[unlikely]]
      Ring(attention);
  }

 private:
  // How often a sleeper looks whether its peer still lives.
  static constexpr auto kLookAfter = std::chrono::milliseconds(200);
  // Looking at the clock costs as much as a yield: only now and then.
  static constexpr int kYieldsPerLook = 8;

  static void Ring(Attention& attention);
  // Sleeps until the bell's value is not `heard`, at most `timeout`.
  void WaitForBell(uint32_t heard, Deadline::Clock::duration timeout);

  const int spins_;
  const std::chrono::microseconds yield_for_;
  Attention& attention_;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  Status cause_;  // guarded by mutex_
};

void YieldProcessor();

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
    if (now >= deadline.when()) return ready() ? Outcome::kReady : Outcome::kExpired;
    if (i == kYieldsPerLook) sleep_at = now + yield_for_;
    if (now >= sleep_at) break;
  }
  for (;;) {
    const uint32_t heard = attention_.bell.load(std::memory_order_acquire);
    attention_.waiting_for.store(whom, std::memory_order_relaxed);
    // Either the peer sees that we wait, or we see what it did: both have a full fence between.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Outcome outcome = Outcome::kReady;
    bool over = true;
    if (ready()) {
      outcome = Outcome::kReady;
    } else if (aborted()) {
      outcome = Outcome::kAborted;
    } else if (deadline.Expired()) {
      outcome = Outcome::kExpired;
    } else {
      const Deadline::Clock::duration left = deadline.Remaining();
      WaitForBell(heard, std::min<Deadline::Clock::duration>(left, kLookAfter));
      over = left >= kLookAfter && attention_.bell.load(std::memory_order_relaxed) == heard &&
             lost() && !ready();
      outcome = Outcome::kLost;
    }
    attention_.waiting_for.store(kNobody, std::memory_order_relaxed);
    if (over) return outcome;
  }
}

}  // namespace lockstep::collective::shm
