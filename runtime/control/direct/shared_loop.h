// A loop that has a thread of its own, and that other threads of the process may turn as well.
//
// To hand a message to another thread and to be woken by it costs tens of microseconds; to do that
// thread's work oneself costs the work. So who has something for the loop takes its lock and turns
// it, and who waits for what the loop brings turns it meanwhile. The loop's own thread sleeps as
// long as nobody needs it: it is woken by what comes while no other thread looks.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/base/deadline.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::control {

// What the loop reads and owns is used with its lock held only, by whichever thread.
//
// Threads: safe, except as noted.
class SharedLoop final : public InputWaiter::Sharing {
 public:
  // What the loop does. All are called with the lock held.
  struct Work {
    // Reads what has come, a bounded number of messages, and deals with it. True: something had.
    std::function<bool()> turn;
    // When it is to be turned even though nothing has come.
    std::function<Deadline()> next_turn;
    // What it waits for comes by memory alone (Channel::by_memory()).
    std::function<bool()> by_memory;
  };

  SharedLoop() = default;

  // --- Its own thread.

  // From now on others may turn it, too. `channels`: what it reads. All of them, `wake_up` and what
  // `work` needs outlive Close().
  void Open(std::vector<Channel*> channels, WakeUp& wake_up, Work work);
  // Held while it does something; given up while it waits (InputWaiter::Sharing).
  std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }
  // With the lock held: nobody else turns it any more.
  void Close();

  void Release() override { mutex_.unlock(); }
  void Acquire() override { mutex_.lock(); }
  bool StaysAwake() override;
  Deadline BeginSleep(Deadline until) override;
  bool EndSleep() override;

  // --- Other threads, without the lock. In a child of fork() they find it closed: it is the
  // parent's, with which the child shares memory.

  // Calls `before` with the lock held, and then turns the loop until it has nothing to do, or its
  // own thread does the rest; once, if the caller turns it again in a moment. False: it is closed,
  // and nothing was done.
  enum class Then { kLeaves, kTurnsAgain };
  bool Turn(absl::FunctionRef<void()> before, Then then = Then::kLeaves);
  // Turns it once, unless another thread does.
  void TryTurn();
  // Of Work, when it was turned last.
  bool by_memory() const { return by_memory_.load(std::memory_order_relaxed); }
  // Around a time in which the thread calls TryTurn() again and again: peers wake nobody meanwhile.
  void BeginLooking();
  void EndLooking();

 private:
  bool HasInput();
  // Peers are to wake the loop's own thread.
  void Arm();
  enum class Who { kSleeper, kOther };
  void Disarm(Who who);
  // What a thread leaves behind that has turned it: the loop's own thread does it, or is woken.
  void HandOver();
  // Wakes the loop's own thread, which sleeps.
  void Call();

  std::mutex mutex_;
  bool is_open_ = false;
  std::vector<Channel*> channels_;
  WakeUp* wake_up_ = nullptr;
  Work work_;
  int looking_ = 0;      // threads between BeginLooking() and EndLooking()
  bool sleeps_ = false;  // its own thread
  Deadline sleeps_until_ = Deadline::At({});
  bool is_armed_ = false;
  bool is_called_ = false;   // while it sleeps
  bool was_turned_ = false;  // by others, since its own thread has slept last
  std::atomic<bool> by_memory_{false};
};

}  // namespace lockstep::control
