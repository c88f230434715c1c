// What a session reads from its connection: answers, credit, and what functions print.
#pragma once

#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "runtime/base/deadline.h"
#include "runtime/client/link.h"
#include "runtime/client/output_listener.h"

namespace lockstep::client {

// A thread that waits for an answer reads the socket itself, so that an answer wakes no other
// thread in between; it hands an answer for another thread over to that.
//
// Threads: safe, with the session's mutex held (in `lock`, which gives it up meanwhile). Ownership:
// the mutex and the link are borrowed.
class SessionInput {
 public:
  SessionInput(std::mutex& mutex, Link& link) : mutex_(mutex), link_(link) {}

  // Takes in what arrives until `over()`, or until the deadline (then false).
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Sleeper& sleeper,
                 absl::FunctionRef<bool()> over, Deadline deadline);

  // From now on `on_output` gets what functions print, on a thread of its own. Without the mutex.
  void StartOutput(const OutputCallback& on_output);
  // Returns when lines that came before are handed over.
  void AwaitOutput(std::unique_lock<std::mutex>& lock);
  // What has come is handed over first. Without the mutex.
  void StopOutput();

 private:
  std::mutex& mutex_;
  Link& link_;
  int readers_ = 0;                           // threads in WaitUntil()
  std::unique_ptr<OutputListener> listener_;  // null: output is not asked for
};

}  // namespace lockstep::client
