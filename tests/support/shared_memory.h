// What tests that move gibibytes need of the machine.
#pragma once

#include <sys/statvfs.h>

#include <cstdint>
#include <string>

namespace lockstep {

// Why a test that needs `gib` GiB of shared memory cannot run here; empty if it can. Containers
// often have 64 MiB.
inline std::string LacksSharedMemory(uint64_t gib) {
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) != 0) return "there is no /dev/shm here";
  const uint64_t free_mib = (uint64_t{shm.f_bavail} * shm.f_frsize) >> 20;
  if (free_mib >= gib << 10) return "";
  return "it takes " + std::to_string(gib) + " GiB in /dev/shm, which has " +
         std::to_string(free_mib) + " MiB free";
}

}  // namespace lockstep
