// Writing a timeline into a file, and telling what is in it.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/client/trace.h"

namespace lockstep::cli {

// "trace.json: 1,234 events of 4 ranks, clocks within 12 us", and a line for each thing that is not
// in it: ranks that are missing, events that are lost, clocks that could not be compared.
std::string DescribeTrace(const Trace& trace, const std::string& path);

// Before anything is recorded: whether it could be written.
Status CheckTraceFile(const std::string& path);

// Writes the file ("-": to standard output), then says so on standard error.
Status WriteTraceFile(const Trace& trace, const std::string& path);

}  // namespace lockstep::cli
