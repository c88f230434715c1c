// Where the failure happened that a Status tells of, for programs; its message tells people.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep {

struct Failure {
  Rank rank = -1;        // the worker that failed; -1: the controller
  SessionId session;     // whose command it was; 0: of none
  uint64_t command = 0;  // the failing command, counted from 1 within its session; 0: none
  std::string function;  // "lockstep.fail", "allreduce"; empty if none
  std::string message;   // without the place that Status's message begins with
  std::string stack;     // the remote stack; empty if there is none
};

// The place of a failure that came from the cluster: the first cause of a session's failure, or why
// a request of a session was refused. None for OK, for errors that this process found by itself,
// and for what concerns no session, as why none was opened.
std::optional<Failure> FailureOf(const Status& status);

}  // namespace lockstep
