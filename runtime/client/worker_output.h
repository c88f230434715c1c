// What functions print on the workers, as the client sees it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "runtime/base/ids.h"

namespace lockstep {

struct WorkerOutput {
  enum class Stream : uint8_t { kStdout, kStderr };

  Rank rank = 0;
  Stream stream = Stream::kStdout;
  // A line without its newline: of whatever bytes the function printed. More than 16 KiB come in
  // pieces.
  std::string text;
  // Not 0: this is no line; about so many were dropped in this place, because more was printed than
  // could be passed on.
  uint64_t dropped = 0;
};

using OutputCallback = std::function<void(const WorkerOutput&)>;

// "[rank 3] text" for each line: what went to the workers' standard output to `out`, the rest to
// `err`. On a terminal, control characters are written as "\x1b": what functions print cannot
// command it. The files outlive the session.
OutputCallback PrintOutput(std::FILE* out = stdout, std::FILE* err = stderr);
// The line that PrintOutput() prints, without a newline.
std::string FormatOutput(const WorkerOutput& output, bool for_terminal);

}  // namespace lockstep
