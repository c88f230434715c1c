// Whether this process is to end: known from before its service is there, so that a start that
// waits for others obeys, too.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/status.h"
#include "services/process/stop_signals.h"

namespace lockstep::process {

// Threads: any.
class StopRequest {
 public:
  // From here on the process ends by StopSignals' rules: a start that does not look at Came() is
  // given kStopGrace as well. The arguments and errors are those of StopSignals::Watch().
  static StatusOr<std::unique_ptr<StopRequest>> Watch(pid_t parent, int input_fd);

  bool Came() const;

  // From here on `on_stop` is called with the reason: at once if the request has come, or on a
  // thread of its own when it comes. Null: nobody is called; who was is not any more when this
  // returns.
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
