#include "tools/bench/process_facts.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep::bench {
namespace {

std::string Folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

StatusOr<std::chrono::duration<double>> CpuTime(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator task(Folder(pid) + "/task", error);
  uint64_t nanos = 0;
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    uint64_t of_thread = 0;
    // A thread that has just ended has no file any more.
    if (file >> of_thread) nanos += of_thread;
  }
  if (error) return NotFound("process ", pid, ": ", error.message());
  return std::chrono::duration<double>(static_cast<double>(nanos) * 1e-9);
}

StatusOr<size_t> ResidentBytes(pid_t pid) {
  std::ifstream file(Folder(pid) + "/status");
  for (std::string label; file >> label;) {
    size_t kib = 0;
    if (label == "VmRSS:" && file >> kib) return kib << 10;
    std::getline(file, label);
  }
  return NotFound("process ", pid, " does not run");
}

}  // namespace lockstep::bench
