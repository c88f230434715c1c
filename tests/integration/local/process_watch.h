// What tests look at to see that nothing of a cluster is left behind.
#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"

namespace lockstep::local {

// True once no process of `pids` runs any more; false if one still does at `deadline`. Zombies of
// other parents count as ended: only their parent has not looked yet.
inline bool AllGone(const std::vector<pid_t>& pids, Deadline deadline) {
  const auto runs = [](pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t state = text.rfind(") ");
    return state != std::string::npos && text[state + 2] != 'Z';
  };
  while (std::any_of(pids.begin(), pids.end(), runs)) {
    if (deadline.Expired()) return false;
    std::this_thread::yield();
  }
  return true;
}

// The shared memory that process `pid` maps (0: this one), as paths in /dev/shm.
inline std::set<std::string> SegmentsOf(pid_t pid) {
  std::set<std::string> paths;
  std::ifstream maps("/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find("/dev/shm/lockstep-");
    if (begin != std::string::npos && line.find("(deleted)") == std::string::npos) {
      paths.insert(line.substr(begin));
    }
  }
  return paths;
}

inline bool NoneExists(const std::set<std::string>& paths) {
  return std::none_of(paths.begin(), paths.end(),
                      [](const std::string& path) { return std::filesystem::exists(path); });
}

// A directory that TMPDIR names while this object lives, so that a test sees what stays in it.
class ScopedTmpDir {
 public:
  ScopedTmpDir() {
    const char* before = std::getenv("TMPDIR");
    before_ = before == nullptr ? "" : before;
    // Short, whatever the test's own directory is: socket paths have 107 bytes.
    std::string pattern = "/tmp/lockstep-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~ScopedTmpDir() {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
    std::filesystem::remove_all(path_);
  }
  ScopedTmpDir(const ScopedTmpDir&) = delete;
  ScopedTmpDir& operator=(const ScopedTmpDir&) = delete;

  const std::string& path() const { return path_; }
  bool IsEmpty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string before_;
  std::string path_;
};

}  // namespace lockstep::local
