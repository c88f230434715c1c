// Whether workers can be reached where they say that others reach them.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/input_waiter.h"
#include "services/controller/common/liveness.h"

namespace lockstep::controller {

// Tries endpoints by connecting to them, on a thread of its own. Nothing is sent.
//
// Threads: safe.
class ReachBack final : public Reachability {
 public:
  // `on_result` is called on that thread when there is something new to Ask() for. A host that does
  // not answer is given `patience`, and so is the server that knows its name.
  explicit ReachBack(std::function<void()> on_result,
                     std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~ReachBack() override;

  std::optional<Status> Ask(const std::string& endpoint) override;

 private:
  struct Known {
    std::optional<std::string> obstacle;  // see control::TcpAttempt
    bool being_tried = false;
    Deadline::Clock::time_point asked;
  };
  void Run();
  // Takes what is to be tried, and forgets endpoints that are not asked for any more. Nothing: it
  // is time to end.
  std::optional<std::deque<std::string>> TakeWanted();
  void Finish(const std::string& endpoint, const std::string& obstacle);

  const std::function<void()> on_result_;
  const std::chrono::milliseconds patience_;
  control::WakeUp wake_up_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::deque<std::string> wanted_;
  std::unordered_map<std::string, Known> known_;
  std::thread thread_;
};

}  // namespace lockstep::controller
