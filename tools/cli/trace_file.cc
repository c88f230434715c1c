#include "tools/cli/trace_file.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "runtime/client/chrome_trace.h"
#include "tools/cli/command_line.h"
#include "tools/text/format.h"

namespace lockstep::cli {
namespace {

constexpr char kStandardOutput[] = "-";

// Rounded up: what is said is sure.
std::string FormatMicros(std::chrono::nanoseconds duration) {
  const auto micros = std::chrono::ceil<std::chrono::microseconds>(duration).count();
  return text::FormatCount(static_cast<uint64_t>(std::max<int64_t>(micros, 0))) + " us";
}

}  // namespace

std::string DescribeTrace(const Trace& trace, const std::string& path) {
  uint64_t ranks = 0;
  std::string gaps;
  for (const TraceProcess& process : trace.processes) {
    if (process.role == TraceProcess::Role::kWorker) ++ranks;
    if (!process.missing.empty()) {
      gaps += "\nmissing   " + process.Name() + ": " + process.missing;
    }
    if (const uint64_t lost = process.lost(); lost > 0) {
      gaps += "\nlost      " + process.Name() + ": the oldest " + text::Plural(lost, "event") +
              "; more are kept with --events";
    }
    if (!process.clock_is_known) {
      gaps += "\nclock     " + process.Name() +
              ": could not be compared with the controller's; its times may mean anything";
    }
  }
  return path + ": " + text::FormatCount(trace.NumEvents()) + " events of " +
         text::Plural(ranks, "rank") + ", clocks within " +
         FormatMicros(trace.clock_uncertainty()) + gaps;
}

Status CheckTraceFile(const std::string& path) {
  return path == kStandardOutput ? OkStatus() : CheckChromeTraceFile(path);
}

Status WriteTraceFile(const Trace& trace, const std::string& path) {
  if (path == kStandardOutput) {
    WriteChromeTrace(trace, std::cout);
    std::cout.flush();
  } else {
    LOCKSTEP_RETURN_IF_ERROR(WriteChromeTrace(trace, path));
  }
  std::cerr << DescribeTrace(trace, path) << '\n';
  return OkStatus();
}

StatusOr<std::unique_ptr<RunTrace>> RunTrace::Start(Session& session, std::string file,
                                                    InterruptGuard interrupt,
                                                    std::function<void()> end_session) {
  LOCKSTEP_RETURN_IF_ERROR(session.StartTrace());
  return std::unique_ptr<RunTrace>(
      new RunTrace(session, std::move(file), std::move(interrupt), std::move(end_session)));
}

RunTrace::RunTrace(Session& session, std::string file, InterruptGuard interrupt,
                   std::function<void()> end_session)
    : session_(session),
      file_(std::move(file)),
      interrupt_(std::move(interrupt)),
      end_session_(std::move(end_session)),
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
  interrupt_.Take();
  InterruptGuard::LetThrough();
  std::cerr << "interrupted; what there is of the timeline is written\n";
  const Status written = Write();
  if (!written.ok()) std::cerr << "lockstep: " << Message(written) << '\n';
  if (end_session_) end_session_();
  // What the program was doing may never end: nothing is waited for.
  std::_Exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace lockstep::cli
