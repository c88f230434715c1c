#include "runtime/collective/tcp/chunk.h"

#include <cerrno>

namespace lockstep::collective::tcp {

bool IsTemporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS ||
         error == ENOMEM;
}

}  // namespace lockstep::collective::tcp
