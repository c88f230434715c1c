#include "tests/integration/process_watch.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/base/shared_segment.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

// The state letter of a process or thread, as proc(5) gives it; 0 if it has ended.
char StateOf(const fs::path& directory) {
  std::ifstream stat(directory / "stat");
  std::string text;
  std::getline(stat, text);
  const size_t state = text.rfind(") ");
  return state == std::string::npos ? '\0' : text[state + 2];
}

fs::path ProcOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

bool AllGone(const std::vector<pid_t>& pids, Deadline deadline) {
  const auto runs = [](pid_t pid) {
    const char state = StateOf(ProcOf(pid));
    return state != '\0' && state != 'Z';
  };
  while (std::any_of(pids.begin(), pids.end(), runs)) {
    if (deadline.Expired()) return false;
    support::LetOthersWork();
  }
  return true;
}

void Suspend(pid_t pid) {
  kill(pid, SIGSTOP);
  const auto runs = [](const fs::directory_entry& thread) { return StateOf(thread.path()) != 'T'; };
  std::error_code error;
  do {
    support::LetOthersWork();
    const fs::directory_iterator threads(ProcOf(pid) / "task", error);
    if (error || std::none_of(begin(threads), end(threads), runs)) return;
  } while (true);
}

std::set<std::string> SegmentsOf(pid_t pid) {
  std::set<std::string> paths;
  std::ifstream maps((pid == 0 ? fs::path("/proc/self") : ProcOf(pid)) / "maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find(std::string("/dev/shm/") + SharedSegment::kNamePrefix);
    if (begin == std::string::npos) continue;
    // A name that is gone is marked as such, but another segment may have taken it since.
    const std::string path = line.substr(begin, line.find(' ', begin) - begin);
    if (line.find("(deleted)") == std::string::npos && fs::exists(path)) paths.insert(path);
  }
  return paths;
}

bool NoneExists(const std::set<std::string>& paths) {
  return std::none_of(paths.begin(), paths.end(),
                      [](const std::string& path) { return fs::exists(path); });
}

}  // namespace lockstep::testing
