#include "runtime/control/worker_report.h"

#include <cstdio>

namespace lockstep {

std::string WorkerActivity::Describe() const {
  if (kind == Kind::kNone) return "nothing";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(since).count());
  return "command " + std::to_string(command) + (what.empty() ? "" : " (" + what + ")") +
         " of session " + std::to_string(session.value) + " for " + seconds;
}

}  // namespace lockstep
