// When a service is to end: SIGTERM, SIGINT, and the ends of the parent process and of the standard
// input, as calls on an ordinary thread, or as a request that is known from before the service is
// there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/status.h"

namespace lockstep::process {

// From here on SIGTERM and SIGINT wait for StopSignals, and SIGPIPE does nothing. To be called
// before any other thread exists. Programs that this process starts are not concerned: handlers end
// with exec(), as blocked and ignored signals would not.
void CatchStopSignals();

// A stop that takes longer than this after it was asked for is given up: the process ends with 1.
inline constexpr std::chrono::seconds kStopGrace{5};

// Threads: `on_stop` is called once, on a thread of its own, while this object lives.
// A second signal ends the process at once, with exit code 1.
class StopSignals {
 public:
  // `parent`: also stop when this process ends; 0: no matter. kFailedPrecondition if `parent` is
  // not the parent (any more). `input_fd`: also stop when this input, whose bytes are passed over,
  // is at its end; borrowed; -1: none.
  //
  // The parent is watched through its pidfd. prctl(PR_SET_PDEATHSIG) would not do: it fires when
  // the *thread* that started this process ends, however long the parent itself lives.
  static StatusOr<std::unique_ptr<StopSignals>> Watch(
      pid_t parent, std::function<void(const std::string& reason)> on_stop, int input_fd = -1);

  // Stops watching. A stop that was begun is no longer timed: call this when it is complete.
  ~StopSignals();

 private:
  StopSignals(int parent_fd, int end_fd, int input_fd,
              std::function<void(const std::string&)> on_stop);
  void Run();

  const int parent_fd_;  // -1: none
  const int end_fd_;     // readable when this object is destroyed
  const int input_fd_;   // -1: none
  const std::function<void(const std::string&)> on_stop_;
  std::thread thread_;
};

// Whether this process is to end: a start that waits for others obeys, too.
//
// Threads: any.
class StopRequest {
 public:
  // From here on the process ends by StopSignals' rules: a start that does not look at Came() is
  // given kStopGrace as well. The arguments and errors are those of StopSignals::Watch().
  static StatusOr<std::unique_ptr<StopRequest>> Watch(pid_t parent, int input_fd);

  bool Came() const;

  // From here on `on_stop` is called with the reason: at once if the request has come, or on a
  // thread of its own when it comes. Null: nothing is called; the earlier one is not any more
  // when this returns.
  void Forward(std::function<void(const std::string& reason)> on_stop);

 private:
  StopRequest() = default;
  void Take(const std::string& reason);

  mutable std::mutex mutex_;
  std::string reason_;  // empty: none has come
  std::function<void(const std::string&)> on_stop_;
  std::unique_ptr<StopSignals> signals_;  // the last: it calls Take() while it lives
};

}  // namespace lockstep::process
