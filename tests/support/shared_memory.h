// What tests know of shared memory: how much there is, and what of it is mapped.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstddef>
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

// Why pages cannot be seen to be mapped before they are used here; empty if they can.
inline std::string LacksPrefault() {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
  constexpr size_t kBytes = size_t{64} << 10;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "there is no memory";
  const bool is_populated = madvise(memory, kBytes, kPopulateWrite) == 0;
  munmap(memory, kBytes);
  if (!is_populated) return "this kernel maps no pages ahead (MADV_POPULATE_WRITE)";
  return access("/proc/self/pagemap", R_OK) == 0 ? "" : "there is no /proc/self/pagemap here";
}

// How many pages of [memory, memory + size_bytes) this process has mapped; -1 where the kernel does
// not tell.
inline int64_t CountMappedPages(const void* memory, size_t size_bytes) {
  constexpr size_t kPageBytes = 4096;
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  int64_t mapped = 0;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) / kPageBytes;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + size_bytes - 1) / kPageBytes;
  for (uintptr_t page = begin; page <= end && mapped >= 0; ++page) {
    uint64_t entry = 0;
    const bool is_told = pread(file, &entry, sizeof entry,
                               static_cast<off_t>(page * sizeof entry)) == ssize_t{sizeof entry};
    mapped = is_told ? mapped + static_cast<int64_t>(entry >> 63) : -1;
  }
  close(file);
  return mapped;
}

}  // namespace lockstep
