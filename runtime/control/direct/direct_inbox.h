// What the controller says to a client of its own process, until that reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::control {

// Threads: safe.
class DirectInbox {
 public:
  // --- The controller's side.

  // False: `most` wait already, and it is lost.
  bool Put(const Message& message, size_t most);

  // --- The client's.

  // The next message; false if there is none.
  bool Take(Message* message);
  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }
  // Readable when something has come since BeginSleep().
  int wait_fd() const { return wake_up_.fd(); }
  void BeginSleep();
  void EndSleep();

 private:
  std::mutex mutex_;
  std::deque<Message> messages_;
  bool sleeps_ = false;  // its reader
  WakeUp wake_up_;
  std::atomic<size_t> count_{0};  // of messages_, to be read without the lock
};

}  // namespace lockstep::control
