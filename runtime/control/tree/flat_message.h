// Messages back to back in one frame: each is the number of its frames, their sizes, and their
// bytes, all in whole words, so that what is read by words stays aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"

namespace lockstep::control {

// Bytes of words, as a frame; takes the words over.
Frame FrameOfWords(std::vector<uint64_t> words);

inline constexpr size_t kMostFlatFrames = 8;

size_t SizeOf(const Message& message);
void AppendFlat(const Message& message, std::vector<uint64_t>& words);

// Reads one thing after the other from a frame, within its bounds. What it gives shares the frame.
class FlatReader {
 public:
  explicit FlatReader(const Frame& frame) : frame_(frame) {}

  bool AtEnd() const { return at_ == frame_.size(); }
  // kInvalidArgument: there is not as much.
  Status TakeWord(uint64_t* word);
  Status TakeBytes(size_t size, Frame* bytes);
  Status TakeMessage(Message* message);

 private:
  size_t left() const { return frame_.size() - at_; }

  const Frame frame_;
  size_t at_ = 0;
};

}  // namespace lockstep::control
