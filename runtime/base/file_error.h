// A failed system call on a file, as a Status.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep {

// "WHAT PATH: the text of ERROR". `error`: an errno. kNotFound; kPermissionDenied; kAlreadyExists;
// kResourceExhausted: no descriptor is left; kUnavailable for all others.
Status FileError(const std::string& what, const std::string& path, int error);

}  // namespace lockstep
