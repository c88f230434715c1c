// Sends what functions print to the controller, for the session whose functions they are.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "services/worker/output/output_lines.h"
#include "services/worker/output/output_redirect.h"

namespace lockstep::worker {

// Between Begin() and End() whatever this process writes to standard output and error belongs to a
// session. Outside, nothing is redirected, so that who does not ask for output pays nothing for it.
//
// A thread of its own sends lines while a function runs. It uses the executing thread's channel,
// which that thread does not need meanwhile: so lines keep their place before whatever is said
// afterwards.
//
// Threads: Begin() and End() belong to the executing thread.
class OutputForwarder {
 public:
  // The errors of OutputRedirect. One per process: workers that are threads have none.
  static StatusOr<std::unique_ptr<OutputForwarder>> Create();
  ~OutputForwarder();

  // `controller` is lent until End(), and not to be used meanwhile.
  void Begin(SessionId session, control::ClientChannel& controller);
  // Returns when all that was printed since Begin() is sent, or has been dropped as too much.
  void End();

 private:
  explicit OutputForwarder(std::unique_ptr<OutputRedirect> redirect);
  void Run();
  // With mutex_ held. Takes up to a buffer, of at most `most` bytes; false if there is nothing.
  bool TakeSome(OutputStream stream, size_t most);
  void Send(control::Frame lines, uint64_t count);

  const std::unique_ptr<OutputRedirect> redirect_;
  std::mutex mutex_;
  OutputLines lines_;
  OutputLines::Clock::time_point last_look_{};
  std::vector<char> buffer_;
  SessionId session_;
  control::ClientChannel* controller_ = nullptr;  // null: what comes belongs to no session
  bool stopping_ = false;
  control::WakeUp wake_up_;
  std::thread thread_;
};

}  // namespace lockstep::worker
