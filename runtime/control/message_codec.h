// One Cap'n Proto message in one frame: building it, and reading it within limits. What is the
// first frame of a message begins with its protocol's tag (protocol.h).
//
// Every exception of the library ends here. What comes from outside is never trusted: a reader may
// look at a bounded number of words and follow pointers to a bounded depth.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/protocol.h"

namespace lockstep::control {

struct ReadLimits {
  // Words that one message may make a reader visit, and how often each of them: a few bytes can
  // claim a list of very many empty elements.
  uint64_t traversal_words = uint64_t{1} << 27;
  uint64_t visits_per_word = 16;
  int nesting = 32;

  capnp::ReaderOptions For(size_t message_words) const {
    // Small messages may be read by field, again and again.
    constexpr uint64_t kAlways = 4096;
    return {std::min(traversal_words, visits_per_word * message_words + kAlways), nesting};
  }
};

// Translates an exception of Cap'n Proto.
Status FromKjException(const kj::Exception& exception);

// Calls `fill` with a builder for the message's root and returns the frame.
template <typename Schema, typename Fill>
Frame EncodeMessage(Fill&& fill) {
  constexpr size_t kScratchWords = 128;
  capnp::word scratch[kScratchWords];
  std::memset(scratch, 0, sizeof scratch);
  capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kScratchWords));
  fill(builder.template initRoot<Schema>());
  constexpr size_t kTagWords = kProtocolOf<Schema> == Protocol::kNone ? 0 : 1;
  const size_t words = kTagWords + capnp::computeSerializedSizeInWords(builder);
  auto bytes = std::make_shared_for_overwrite<uint64_t[]>(words);
  if constexpr (kTagWords > 0) bytes[0] = TagOf(kProtocolOf<Schema>);
  kj::ArrayOutputStream out(kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.get() + kTagWords),
                                         (words - kTagWords) * sizeof(uint64_t)));
  capnp::writeMessage(out, builder);
  const void* start = bytes.get();
  return Frame(std::move(bytes), start, words * sizeof(uint64_t));
}

// The words of a frame: in place where they are aligned, else from a copy.
class AlignedWords {
 public:
  explicit AlignedWords(const Frame& frame);

  kj::ArrayPtr<const capnp::word> words() const { return words_; }
  // False if the frame's size is not a multiple of 8 bytes.
  bool ok() const { return ok_; }

 private:
  std::unique_ptr<uint64_t[]> copy_;
  kj::ArrayPtr<const capnp::word> words_;
  bool ok_ = true;
};

// Reads the message in `frame` and calls `use` with its root, which is valid only inside. `use`
// returns a Status. kInvalidArgument if the bytes are no such message; the errors of
// CheckProtocol().
template <typename Schema, typename Use>
Status DecodeMessage(const Frame& frame, Use&& use, const ReadLimits& limits = {}) {
  constexpr Protocol kProtocol = kProtocolOf<Schema>;
  constexpr size_t kTagWords = kProtocol == Protocol::kNone ? 0 : 1;
  if constexpr (kTagWords > 0) {
    if (!HasTag(frame, kProtocol)) [[unlikely]]
      return CheckProtocol(frame, kProtocol);
  }
  const AlignedWords aligned(frame);
  if (!aligned.ok() || aligned.words().size() == kTagWords) {
    return InvalidArgument("a message of ", frame.size(), " bytes is cut off");
  }
  try {
    const auto words = aligned.words().slice(kTagWords, aligned.words().size());
    capnp::FlatArrayMessageReader reader(words, limits.For(words.size()));
    return use(reader.getRoot<Schema>());
  } catch (const kj::Exception& exception) {
    return FromKjException(exception);
  }
}

// The same for a frame of several messages, one after the other, none of which begins with a tag;
// until `use` returns an error.
template <typename Schema, typename Use>
Status DecodeMessages(const Frame& frame, Use&& use, const ReadLimits& limits = {}) {
  static_assert(kProtocolOf<Schema> == Protocol::kNone);
  const AlignedWords aligned(frame);
  if (!aligned.ok()) return InvalidArgument("messages of ", frame.size(), " bytes are cut off");
  try {
    auto words = aligned.words();
    while (words.size() > 0) {
      capnp::FlatArrayMessageReader reader(words, limits.For(words.size()));
      LOCKSTEP_RETURN_IF_ERROR(use(reader.getRoot<Schema>()));
      words = kj::arrayPtr(reader.getEnd(), words.end());
    }
    return OkStatus();
  } catch (const kj::Exception& exception) {
    return FromKjException(exception);
  }
}

}  // namespace lockstep::control
