#include "runtime/collective/tcp/chunk.h"

#include <cerrno>
#include <string>

namespace lockstep::collective::tcp {

LeaveWords WordsFor(const Status& why) {
  const std::string text = Message(why);
  LeaveWords words;
  words.code = static_cast<uint32_t>(why.code());
  words.length = static_cast<uint32_t>(text.copy(words.text.data(), words.text.size()));
  return words;
}

bool IsTemporary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS ||
         error == ENOMEM;
}

}  // namespace lockstep::collective::tcp
