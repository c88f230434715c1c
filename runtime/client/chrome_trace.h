// Timelines in the Chrome trace event format, which ui.perfetto.dev and chrome://tracing open
// (docs/tracing.md says what is in them).
#pragma once

#include <ostream>
#include <string>

#include "runtime/base/status.h"
#include "runtime/client/trace.h"

namespace lockstep {

void WriteChromeTrace(const Trace& trace, std::ostream& out);

// Into the file `path`, which is replaced when all is written; a reader finds it meanwhile
// as it was, or not at all. A symbolic link stays one; what is there and is no file, a pipe or a
// device, is written to. kUnavailable if it cannot be written.
Status WriteChromeTrace(const Trace& trace, const std::string& path);

// Tries whether it could be, before there is anything to lose. kUnavailable, kInvalidArgument.
Status CheckChromeTraceFile(const std::string& path);

}  // namespace lockstep
