// Where workers of this host keep what they have compiled of fragments, unless they are told.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::local {

// ${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/fragments: the next cluster finds there what this one
// has compiled. kNotFound: neither variable names a directory.
StatusOr<std::string> UserFragmentCache();

// Whether workers of this user can keep fragments in `path`, which they make if it is not there.
// kPermissionDenied: it could be changed by other users, so they would not, or it takes nothing
// from this one; kFailedPrecondition: it is no directory; kNotFound: what leads to it is not there.
Status CanKeepFragments(const std::string& path);

// Makes what leads to `path`, for this user alone; a worker makes the directory itself. The errors
// of CanKeepFragments(), and of FileError() if it cannot be made.
Status PrepareFragmentCache(const std::string& path);

}  // namespace lockstep::local
