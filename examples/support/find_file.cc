#include "examples/support/find_file.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep::examples {

StatusOr<std::string> FindFile(const std::string& repo_path) {
  namespace fs = std::filesystem;
  // The name that WORKSPACE gives this repository.
  constexpr const char* kRepository = "lockstep";

  std::vector<fs::path> candidates;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    candidates.push_back(program.parent_path() / fs::path(repo_path).filename());
    candidates.push_back(fs::path(program.string() + ".runfiles") / kRepository / repo_path);
  }
  // `bazel test` and `bazel run` set one of these.
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    if (const char* runfiles = std::getenv(variable)) {
      candidates.push_back(fs::path(runfiles) / kRepository / repo_path);
    }
  }
  candidates.push_back(fs::path(repo_path));

  std::string looked_at;
  for (const fs::path& candidate : candidates) {
    const fs::path found = fs::canonical(candidate, error);
    if (!error) return found.string();
    looked_at += "\n  " + candidate.string();
  }
  return NotFound("there is no ", repo_path, "; looked at", looked_at);
}

}  // namespace lockstep::examples
