#include "services/local/fragment_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "runtime/base/files.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

// The XDG base directory specification has relative paths ignored.
fs::path DirectoryOf(const char* variable) {
  const char* const value = std::getenv(variable);
  const fs::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path.lexically_normal() : fs::path();
}

Status MakePrivate(const fs::path& directory) {
  std::error_code ignored;
  if (directory.empty() || fs::is_directory(directory, ignored)) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(MakePrivate(directory.parent_path()));
  if (mkdir(directory.c_str(), S_IRWXU) == 0 || errno == EEXIST) return OkStatus();
  return FileError("cannot make directory", directory.string(), errno);
}

}  // namespace

StatusOr<std::string> UserFragmentCache() {
  fs::path cache = DirectoryOf("XDG_CACHE_HOME");
  if (cache.empty()) {
    const fs::path home = DirectoryOf("HOME");
    if (home.empty()) return NotFound("neither $XDG_CACHE_HOME nor $HOME names a directory");
    cache = home / ".cache";
  }
  return (cache / "lockstep" / "fragments").string();
}

Status CanKeepFragments(const std::string& path) {
  // Or, where it is not there, the nearest directory that leads to it: the others are made.
  std::error_code ignored;
  fs::path there = fs::absolute(path, ignored);
  while (there.has_relative_path() && !fs::exists(there, ignored)) there = there.parent_path();
  if (!fs::is_directory(there, ignored)) {
    return FailedPrecondition(there.string(), " is no directory");
  }
  if (access(there.c_str(), W_OK | X_OK) != 0) {
    return FileError("cannot write to", there.string(), errno);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckDirectoriesTo(path));
  return fs::exists(path, ignored) ? CheckTrusted(path) : OkStatus();
}

Status PrepareFragmentCache(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(MakePrivate(fs::path(path).parent_path()));
  return CanKeepFragments(path);
}

}  // namespace lockstep::local
