// What the compiler may no longer do once it reads what others wrote.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"

namespace lockstep::compiler {

struct Limits {
  uint64_t memory_bytes = uint64_t{4}
                          << 30;  // of address space; LLVM's libraries take 300 MB of it
  uint64_t cpu_seconds = 60;
  uint64_t file_bytes = 256 << 20;  // of one file, which are in memory
};

// Applies the limits to this process (setrlimit), and one of 32 descriptors, which bounds how many
// files in memory there can be; makes it the first that the kernel ends when memory is short, and
// writes no core files. kInternal: a limit cannot be set.
Status ApplyLimits(const Limits& limits);

// From now on this process can compute, allocate, read and write descriptors that are open, and
// signal itself; nothing else: no files, no sockets, no processes, no executable memory. A system
// call that is not allowed fails with EPERM. Opening
// "/proc/self/fd/N" gives a copy of descriptor N, without the file system having a part in it: lld
// knows files by their names only. kUnavailable: this kernel has no seccomp filters, or not this
// processor.
Status EnterSandbox();

}  // namespace lockstep::compiler
