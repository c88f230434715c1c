// The timeline of a run: written when it is over, or when ^C ends it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "runtime/control/input_waiter.h"
#include "tools/cli/interrupt.h"

namespace lockstep::cli {

// A program that hangs is what one wants a timeline of, and ^C how it ends: a thread waits for
// that, writes the file, and ends the process with ExitCode::kInterrupted.
//
// Threads: one, beside its own. The session outlives it.
class RunTrace {
 public:
  // `interrupt` was made before other threads were started.
  static StatusOr<std::unique_ptr<RunTrace>> Start(Session& session, std::string file,
                                                   InterruptGuard interrupt);
  ~RunTrace();

  // Ends the recording and writes the file.
  Status Write();

 private:
  RunTrace(Session& session, std::string file, InterruptGuard interrupt);
  void AwaitInterrupt();

  Session& session_;
  const std::string file_;
  InterruptGuard interrupt_;
  control::WakeUp over_;
  std::mutex writing_;  // held by whoever writes the file
  std::thread thread_;
};

}  // namespace lockstep::cli
