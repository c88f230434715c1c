#include "tools/cli/session_interrupt.h"

#include <poll.h>

#include <cstdlib>
#include <iostream>
#include <utility>

#include "tools/cli/command_line.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

StatusOr<std::unique_ptr<SessionInterrupt>> SessionInterrupt::Make() {
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard guard, InterruptGuard::Make());
  return std::unique_ptr<SessionInterrupt>(new SessionInterrupt(std::move(guard)));
}

SessionInterrupt::SessionInterrupt(InterruptGuard guard)
    : guard_(std::move(guard)), thread_([this] { Await(); }) {}

SessionInterrupt::~SessionInterrupt() {
  over_.Signal();
  thread_.join();
}

void SessionInterrupt::Protect(std::function<Status()> end) {
  std::lock_guard lock(mutex_);
  end_ = std::move(end);
}

Status SessionInterrupt::Explain(const Status& status) const {
  if (!came_) return status;
  return WithExitCode(Status(StatusCode::kCancelled,
                             "interrupted; the session's work is being aborted on all ranks"),
                      ExitCode::kInterrupted);
}

void SessionInterrupt::Await() {
  pollfd set[] = {{guard_.fd(), POLLIN, 0}, {over_.fd(), POLLIN, 0}};
  while (poll(set, 2, -1) < 0) {
  }
  if (set[0].revents == 0) return;
  std::function<Status()> end;
  {
    std::lock_guard lock(mutex_);
    end = end_;
  }
  if (!end) std::_Exit(static_cast<int>(ExitCode::kInterrupted));
  guard_.Take();
  came_ = true;
  // The next one finds this thread, and ends the process.
  guard_.LetThrough();
  std::cerr << "\ninterrupted: the session is being ended on all ranks; ^C again leaves it to its "
               "lease\n";
  const Status ended = end();
  // It may be over by itself meanwhile.
  if (ended.ok() || ended.code() == StatusCode::kNotFound) return;
  std::cerr << "lockstep: " << text::Printable(Message(ended)) << '\n';
  std::_Exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace lockstep::cli
