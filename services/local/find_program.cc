#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "services/local/child_process.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

bool IsExecutable(const fs::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// In directories that nobody chose, such as those above the running program, only files of this
// user or of root are trusted.
bool IsTrusted(const fs::path& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0);
}

}  // namespace

std::string FindInPath(const std::string& name) {
  const char* search_path = std::getenv("PATH");
  std::istringstream directories(search_path != nullptr ? search_path : "");
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (directory.empty()) continue;
    const fs::path candidate = fs::path(directory) / name;
    if (IsExecutable(candidate)) return candidate.string();
  }
  return "";
}

StatusOr<std::string> FindProgram(const std::string& name, const std::string& variable,
                                  const std::string& build_directory) {
  if (const char* chosen = std::getenv(variable.c_str()); chosen != nullptr && *chosen != '\0') {
    if (IsExecutable(chosen)) return std::string(chosen);
    return NotFound("$", variable, " is \"", chosen, "\", which is no executable file");
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / name;
  if (!error && IsExecutable(beside)) return beside.string();

  // Programs of the build tree lie two or three folders deep in it.
  fs::path above = self.parent_path();
  for (int level = 0; level < 4 && above.has_relative_path();
       ++level, above = above.parent_path()) {
    const fs::path built = above / build_directory / name;
    if (!error && IsExecutable(built) && IsTrusted(built)) return built.string();
  }

  if (std::string found = FindInPath(name); !found.empty()) return found;
  return NotFound("cannot find the program ", name, ": it is not beside ", self.string(),
                  ", not in PATH, and $", variable, " is not set");
}

}  // namespace lockstep::local
