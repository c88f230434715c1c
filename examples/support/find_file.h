// Where files that belong to an example lie.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::examples {

// The absolute path, with symbolic links resolved, of a file that is built or kept at `repo_path`,
// relative to the repository's root. Looks beside this program, in the runfiles that Bazel makes
// for it, and under the current directory. kNotFound lists where it looked.
StatusOr<std::string> FindFile(const std::string& repo_path);

}  // namespace lockstep::examples
