// Waiting for input on several channels and descriptors: awake for a moment, then asleep.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/control/channel.h"

namespace lockstep::control {

// Times in which other work wants the processor, as yields tell that took long. One may have been
// chance; while one wait after another takes long, it is tried less and less.
//
// Threads: one at a time.
class Crowd {
 public:
  using Clock = std::chrono::steady_clock;

  bool Lasts(Clock::time_point now) const { return now < until_; }
  // A wait yields for the first time.
  void NoteWait() { waits_ = std::min(waits_ + 1, kShortWaits + 1); }
  void NoteLongYield(Clock::time_point now);

 private:
  // Where one program takes turns with another, a wait takes long now and then, and most do not:
  // after more than so many it begins anew.
  static constexpr int kShortWaits = 64;

  Clock::time_point until_;
  Clock::duration length_{0};
  int waits_ = 0;  // that have yielded since the last long yield
};

// The first moments of a wait: the thread yields and asks again instead of sleeping.
//
// Waking a sleeping thread costs tens of microseconds; asking again right away costs less than one.
// So a waiting thread yields and asks again for a while before it sleeps. Where other work wants
// the processor, a yield costs that work's whole time slice, while a sleeper would be woken at
// once: so after a yield that took long, waits go to sleep without yielding for a while. What is
// long depends on what is waited for. Behind a socket threads do its work, which want the
// processor.
//
// Threads: one at a time.
class YieldPhase {
 public:
  enum class For { kSockets, kMemory };

  explicit YieldPhase(std::chrono::microseconds longest) : longest_(longest) {}

  // A wait begins.
  void Begin(For what);
  // Yields once, and returns true; false when it is time to sleep.
  bool Yield();

 private:
  const std::chrono::microseconds longest_;
  std::chrono::microseconds long_yield_{0};
  Crowd::Clock::time_point end_;
  bool has_yielded_ = false;
  Crowd crowd_;
};

// The thread yields and looks again for `poll_before_sleep`, and only then sleeps (YieldPhase): a
// busy exchange never sleeps, an idle one costs nothing. After a wait that has reached its deadline
// the next one sleeps at once.
//
// Threads: one thread per waiter.
class InputWaiter {
 public:
  explicit InputWaiter(std::chrono::microseconds poll_before_sleep) : awake_(poll_before_sleep) {}

  // Others who use the channels, too, while the waiter yields or sleeps.
  class Sharing {
   public:
    virtual ~Sharing() = default;
    // The channels may be used by others from Release() on, until Acquire() returns.
    virtual void Release() = 0;
    virtual void Acquire() = 0;
    // False: others look for input, or have since it slept last, so the waiter sleeps at once.
    virtual bool StaysAwake() = 0;
    // Instead of those of each channel. Returns when to wake up at the latest, `until` or earlier.
    virtual Deadline BeginSleep(Deadline until) = 0;
    // True: others have called it.
    virtual bool EndSleep() = 0;
  };

  // True as soon as a channel has input or a descriptor is readable; false at the deadline.
  // `sharing`: the channels are not the caller's alone, which has them now; then also true when
  // others call it, or at an earlier deadline of theirs. Null: they are.
  bool Wait(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
            Deadline deadline, Sharing* sharing = nullptr);

 private:
  bool WaitFor(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
               Deadline deadline, Sharing* sharing);

  YieldPhase awake_;
  unsigned turns_ = 0;  // of all waits
  // What wakes up for its timers alone expects nothing right after them.
  bool had_input_ = true;
};

// A descriptor that threads wake a waiter with.
//
// Threads: safe.
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void Signal();
  // Forgets past signals.
  void Clear();
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace lockstep::control
