// One Cap'n Proto message in bytes from elsewhere, read within limits.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"

namespace lockstep::fragment {

// Calls `use` with the message's root, which is valid only inside; `use` returns a Status.
// kDataLoss: the bytes are no such message, for this reason.
template <typename Schema, typename Use>
Status ReadMessage(absl::Span<const std::byte> bytes, Use&& use) {
  // Everything is read once or twice; small messages may be read by field, again and again.
  constexpr uint64_t kVisitsPerWord = 4;
  constexpr uint64_t kAlways = 4096;
  constexpr int kNesting = 16;
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return DataLoss("it is empty or cut off");
  }
  // Aligned, which what has been read from a file, a pipe or another message need not be.
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const kj::ArrayPtr<const capnp::word> array(reinterpret_cast<const capnp::word*>(words.data()),
                                              words.size());
  try {
    capnp::FlatArrayMessageReader message(array,
                                          {kVisitsPerWord * words.size() + kAlways, kNesting});
    return use(message.getRoot<Schema>());
  } catch (const kj::Exception& exception) {
    return DataLoss(exception.getDescription().cStr());
  }
}

}  // namespace lockstep::fragment
