// What a cluster needs of the machine: memory to share, files to open, a clock that is right, ways
// to other hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/doctor/finding.h"

namespace lockstep::cli {

// The file system at `path`, where arenas lie. `wanted_bytes`: what the workers of this host may
// take together.
Finding CheckSharedMemory(const std::string& path, uint64_t wanted_bytes);
// `soft` and `hard` limits of open files, for so many workers; what services make of them counts.
Finding CheckOpenFiles(uint64_t soft, uint64_t hard, int workers);
Finding CheckOpenFiles(int workers);
// The limit of locked memory, which drivers of GPUs and fast networks need.
Finding CheckLockedMemory(uint64_t soft_bytes);
Finding CheckLockedMemory();
// Whether something keeps the clock right (adjtimex(2)): logs and timelines of hosts are compared.
Finding CheckClock(bool is_synchronised, int64_t max_error_micros);
Finding CheckClock();
// What this control group may take (cgroups version 1 or 2; `root` is /sys/fs/cgroup), of which
// arenas are a part.
Finding CheckMemoryLimit(const std::string& root, uint64_t wanted_bytes);

struct Interface {
  std::string name;
  std::string address;  // in digits
  bool is_loopback = false;
};
Finding CheckInterfaces(const std::vector<Interface>& interfaces);
Finding CheckInterfaces();

}  // namespace lockstep::cli
