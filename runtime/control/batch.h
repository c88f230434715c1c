// Batches: commands back to back in one frame (the body; see schemas/control.capnp).
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/plain_call.h"
#include "schemas/control.capnp.h"

namespace lockstep::control {

// What a body costs its session's flow window: its bytes, and what a message costs besides.
inline uint64_t FlowCost(size_t body_bytes) { return body_bytes + 512; }

// The smallest command: a word that tells its size, and one that is its root. So the bytes that a
// session may have under way also bound its commands.
inline constexpr size_t kMinCommandBytes = 16;

// Builds bodies. Commands are built in place: no copy, no allocation per command.
//
// Threads: one at a time.
class BatchWriter {
 public:
  BatchWriter();
  ~BatchWriter();
  BatchWriter(const BatchWriter&) = delete;
  BatchWriter& operator=(const BatchWriter&) = delete;

  // Appends one command: `fill` is called with its builder. kInvalidArgument, kResourceExhausted:
  // the command is larger than any can be, or than memory; the body is what it was.
  template <typename Fill>
  Status Add(Fill&& fill) {
    const Mark before = mark();
    try {
      CommandBuilder builder(*this);
      fill(builder.initRoot<wire::Command>());
      builder.Finish();
      return OkStatus();
    } catch (const kj::Exception& exception) {
      Rollback(before);
      return FromKjException(exception);
    } catch (const std::bad_alloc&) {
      Rollback(before);
      return ResourceExhausted("there is no memory for a command");
    }
  }

  // Appends a call of so many words, which `fill` writes: it is given where to, for a
  // PlainCallWriter. kResourceExhausted: there is no memory for it; the body is what it was.
  template <typename Fill>
  Status AddPlainCall(size_t words, Fill&& fill) {
    try {
      Grow(used_words_ + words);
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("there is no memory for a command");
    }
    fill(words_ + used_words_);
    used_words_ += words;
    zeroed_words_ = std::max(zeroed_words_, used_words_);
    ++commands_;
    return OkStatus();
  }

  // The end of the body so far, and the way back to it.
  struct Mark {
    size_t used_words = 0;
    uint32_t commands = 0;
  };
  Mark mark() const { return {used_words_, commands_}; }
  void Rollback(const Mark& mark);

  size_t size_bytes() const { return used_words_ * sizeof(uint64_t); }
  uint32_t commands() const { return commands_; }
  bool empty() const { return commands_ == 0; }

  // The body so far; the writer is empty afterwards.
  Frame Take();

 private:
  // Hands Cap'n Proto the free rest of the buffer as the message's one segment. A command that does
  // not fit gets further segments from the heap and is copied behind the others.
  class CommandBuilder final : public capnp::MessageBuilder {
   public:
    explicit CommandBuilder(BatchWriter& writer) : writer_(writer) {}
    ~CommandBuilder() noexcept(false) override;
    kj::ArrayPtr<capnp::word> allocateSegment(unsigned minimum_words) override;
    void Finish();

   private:
    BatchWriter& writer_;
    bool first_ = true;
    std::vector<void*> overflow_;
  };

  // Makes words [used, used + count) exist, and be zero, as Cap'n Proto wants them.
  void EnsureZeroed(size_t count);
  void Grow(size_t words);

  uint64_t* words_ = nullptr;
  size_t capacity_words_ = 0;
  size_t zeroed_words_ = 0;  // [used_words_, zeroed_words_) is zero
  size_t used_words_ = 0;
  uint32_t commands_ = 0;
};

// The body of a batch of one command, which is known to be small.
template <typename Fill>
Frame OneCommand(Fill&& fill) {
  BatchWriter writer;
  const Status added = writer.Add(std::forward<Fill>(fill));
  return added.ok() ? writer.Take() : Frame();
}

// Reads a body command by command.
class BatchReader {
 public:
  explicit BatchReader(const Frame& body, const ReadLimits& limits = {});

  bool AtEnd() const { return !cut_off_ && position_ == words_.words().size(); }

  // Calls `use` with the next command and moves on. `use` returns a Status; if it takes PlainCalls,
  // too, it is given those as such. kInvalidArgument if the bytes are no command: the rest cannot
  // be read either.
  template <typename Use>
  Status Next(Use&& use) {
    if (std::exchange(cut_off_, false)) return InvalidArgument("a batch is cut off");
    const kj::ArrayPtr<const capnp::word> rest =
        words_.words().slice(position_, words_.words().size());
    try {
      if (const size_t plain = FindPlainCall(rest)) {
        position_ += plain;
        const PlainCall call(rest.begin());
        if constexpr (std::is_invocable_v<Use, const PlainCall&>) {
          return use(call);
        } else {
          return use(call.AsCommand());
        }
      }
      // Of this command alone: what many small ones may visit would otherwise grow with the square
      // of the body.
      const size_t words = std::min(capnp::expectedSizeInWordsFromPrefix(rest), rest.size());
      capnp::FlatArrayMessageReader reader(rest.slice(0, words), limits_.For(words));
      position_ = static_cast<size_t>(reader.getEnd() - words_.words().begin());
      return use(reader.getRoot<wire::Command>());
    } catch (const kj::Exception& exception) {
      position_ = words_.words().size();
      return FromKjException(exception);
    }
  }

 private:
  AlignedWords words_;
  const ReadLimits limits_;
  size_t position_ = 0;
  bool cut_off_;  // not whole words, which is yet to be told
};

}  // namespace lockstep::control
