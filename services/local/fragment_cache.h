// Where workers of this host keep what they have compiled of fragments, unless they are told.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::local {

// ${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/fragments: the next cluster finds there what this one
// has compiled. kNotFound: neither variable names a directory.
StatusOr<std::string> UserFragmentCache();

// Makes what leads to `path`, for this user alone; a worker makes the directory itself.
// kPermissionDenied: it could be changed by other users, and workers would not use it; the errors
// of FileError() if it cannot be made.
Status PrepareFragmentCache(const std::string& path);

}  // namespace lockstep::local
