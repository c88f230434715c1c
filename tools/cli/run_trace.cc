#include "tools/cli/run_trace.h"

#include <poll.h>

#include <cstdlib>
#include <iostream>

#include "tools/cli/exit_code.h"
#include "tools/cli/trace_file.h"

namespace lockstep::cli {

StatusOr<std::unique_ptr<RunTrace>> RunTrace::Start(Session& session, std::string file,
                                                    InterruptGuard interrupt) {
  LOCKSTEP_RETURN_IF_ERROR(session.StartTrace());
  return std::unique_ptr<RunTrace>(new RunTrace(session, std::move(file), std::move(interrupt)));
}

RunTrace::RunTrace(Session& session, std::string file, InterruptGuard interrupt)
    : session_(session),
      file_(std::move(file)),
      interrupt_(std::move(interrupt)),
      thread_([this] { AwaitInterrupt(); }) {}

RunTrace::~RunTrace() {
  over_.Signal();
  thread_.join();
}

Status RunTrace::Write() {
  std::lock_guard lock(writing_);
  LOCKSTEP_ASSIGN_OR_RETURN(const Trace trace, session_.StopTrace());
  return WriteTraceFile(trace, file_);
}

void RunTrace::AwaitInterrupt() {
  pollfd set[] = {{interrupt_.fd(), POLLIN, 0}, {over_.fd(), POLLIN, 0}};
  while (poll(set, 2, -1) < 0) {
  }
  if (set[1].revents != 0) return;
  std::cerr << "interrupted; what there is of the timeline is written\n";
  const Status written = Write();
  if (!written.ok()) std::cerr << "lockstep: " << Message(written) << '\n';
  // What the program was doing may never end: nothing is waited for.
  std::_Exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace lockstep::cli
