#include "runtime/base/file_error.h"

#include <cerrno>
#include <cstring>

namespace lockstep {

Status FileError(const std::string& what, const std::string& path, int error) {
  const std::string text = what + " " + path + ": " + strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(text);
    case EEXIST:
      return AlreadyExists(text);
    case EMFILE:
    case ENFILE:
      return ResourceExhausted(text);
    default:
      return Unavailable(text);
  }
}

}  // namespace lockstep
