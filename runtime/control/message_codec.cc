#include "runtime/control/message_codec.h"

#include <string>

namespace lockstep::control {

Status FromKjException(const kj::Exception& exception) {
  return InvalidArgument("a message cannot be read: ",
                         std::string(exception.getDescription().cStr()));
}

AlignedWords::AlignedWords(const Frame& frame) {
  if (frame.size() % sizeof(uint64_t) != 0 || frame.size() == 0) {
    ok_ = false;
    return;
  }
  const size_t count = frame.size() / sizeof(uint64_t);
  const void* start = frame.data();
  if (reinterpret_cast<uintptr_t>(start) % alignof(uint64_t) != 0) {
    copy_ = std::make_unique_for_overwrite<uint64_t[]>(count);
    std::memcpy(copy_.get(), frame.data(), frame.size());
    start = copy_.get();
  }
  words_ = kj::arrayPtr(static_cast<const capnp::word*>(start), count);
}

}  // namespace lockstep::control
