#include "tools/bench/settings.h"

#include <signal.h>

#include <csignal>

namespace lockstep::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

}  // namespace

Status CheckNotInterrupted() {
  if (interrupted == 0) return OkStatus();
  return Status(StatusCode::kCancelled, "interrupted");
}

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace lockstep::bench
