// How the program ends, for scripts.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::cli {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,             // the command failed: a worker's error, a wait that was too long
  kUsage = 2,              // wrong arguments, or a wrong file: nothing was executed
  kUnreachable = 3,        // no cluster answers
  kExpectationFailed = 4,  // a program ran to its end, but not every `expect` held
  kInterrupted = 130,      // ^C ended the command before it was done, as shells count it
};

// What every --help ends with.
inline constexpr char kExitCodesHelp[] =
    "Exit codes: 0 ok, 1 failed, 2 wrong arguments or file, 3 no cluster answers,\n"
    "            4 an expectation failed, 130 interrupted";

// `status` with the exit code that it shall lead to; OK stays OK.
Status WithExitCode(Status status, ExitCode code);

// kOk for OK, else what WithExitCode() attached, else kFailed.
ExitCode ExitCodeOf(const Status& status);

template <typename... Parts>
Status UsageError(const Parts&... parts) {
  return WithExitCode(InvalidArgument(parts...), ExitCode::kUsage);
}

}  // namespace lockstep::cli
