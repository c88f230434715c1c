// Running other programs to their end (rivals, and our own command line tool), and what a running
// one costs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::bench {

struct ProgramRun {
  std::vector<std::string> argv;  // argv[0] is a path
  std::vector<std::string> environment = {};
  std::string scratch;  // directory for its output
  std::chrono::seconds timeout{60};
};

// Returns what it printed (both streams). An error tells how it ended and the end of its output. A
// program that is late gets SIGTERM, then SIGKILL; kDeadlineExceeded.
StatusOr<std::string> RunProgram(const ProgramRun& run);

// The numbers that a rival prints, one "NAME VALUE" a line; other lines are passed over.
using Numbers = std::map<std::string, double>;
StatusOr<Numbers> RunRival(const ProgramRun& run);
// kNotFound if the rival did not print it.
StatusOr<double> Get(const Numbers& numbers, const std::string& name);

// Where `tools/dev setup` unpacks the wheels of this name, whether or not it has.
std::string UnpackedFolder(const std::string& name);

// Time on a processor of all threads that live, to the nanosecond (the usual counters have 10 ms).
StatusOr<std::chrono::duration<double>> CpuTime(pid_t pid);

// Resident memory, shared pages included.
StatusOr<size_t> ResidentBytes(pid_t pid);

// Resident memory that the process adds to the machine's, beside shared memory such as arenas: its
// own pages, and its share of those pages of programs and libraries that others map, too.
StatusOr<size_t> AddedBytes(pid_t pid);

}  // namespace lockstep::bench
