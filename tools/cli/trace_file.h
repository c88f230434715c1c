// Timelines: written into a file, which is summed up, when a run is over, or when ^C ends it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "runtime/client/trace.h"
#include "runtime/control/input_waiter.h"
#include "tools/cli/interrupt.h"

namespace lockstep::cli {

// "trace.json: 1,234 events of 4 ranks, clocks within 12 us", and a line for each thing that is not
// in it: ranks that are missing, events that are lost, clocks that could not be compared.
std::string DescribeTrace(const Trace& trace, const std::string& path);

// Before anything is recorded: whether it could be written.
Status CheckTraceFile(const std::string& path);

// Writes the file ("-": to standard output), then says so on standard error.
Status WriteTraceFile(const Trace& trace, const std::string& path);

// A program that hangs is what one wants a timeline of, and ^C how it ends: a thread waits for
// that, writes the file, ends the session, and ends the process with ExitCode::kInterrupted. ^C
// once more ends it at once.
//
// Threads: one, beside its own. The session outlives it.
class RunTrace {
 public:
  // `interrupt` was made before other threads were started.
  static StatusOr<std::unique_ptr<RunTrace>> Start(Session& session, std::string file,
                                                   InterruptGuard interrupt,
                                                   std::function<void()> end_session);
  ~RunTrace();

  // Ends the recording and writes the file.
  Status Write();

 private:
  RunTrace(Session& session, std::string file, InterruptGuard interrupt,
           std::function<void()> end_session);
  void AwaitInterrupt();

  Session& session_;
  const std::string file_;
  InterruptGuard interrupt_;
  const std::function<void()> end_session_;
  control::WakeUp over_;
  std::mutex writing_;  // held by the thread that writes the file
  std::thread thread_;
};

}  // namespace lockstep::cli
