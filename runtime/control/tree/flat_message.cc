#include "runtime/control/tree/flat_message.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace lockstep::control {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

size_t WholeWords(size_t bytes) { return (bytes + kWord - 1) / kWord; }

Status CutOff() { return InvalidArgument("messages that lie back to back are cut off"); }

}  // namespace

Frame FrameOfWords(std::vector<uint64_t> words) {
  auto owner = std::make_shared<const std::vector<uint64_t>>(std::move(words));
  const void* const start = owner->data();
  const size_t size = owner->size() * kWord;
  return Frame(std::move(owner), start, size);
}

size_t SizeOf(const Message& message) {
  size_t size = 0;
  for (const Frame& frame : message) size += frame.size();
  return size;
}

void AppendFlat(const Message& message, std::vector<uint64_t>& words) {
  words.push_back(message.size());
  for (const Frame& frame : message) words.push_back(frame.size());
  for (const Frame& frame : message) {
    const size_t at = words.size();
    words.resize(at + WholeWords(frame.size()));
    if (frame.size() > 0) std::memcpy(words.data() + at, frame.data(), frame.size());
  }
}

Status FlatReader::TakeWord(uint64_t* word) {
  if (left() < kWord) return CutOff();
  std::memcpy(word, frame_.data() + at_, kWord);
  at_ += kWord;
  return OkStatus();
}

Status FlatReader::TakeBytes(size_t size, Frame* bytes) {
  // Compared before anything is added to it, which might overflow.
  if (size > left() || WholeWords(size) * kWord > left()) return CutOff();
  *bytes = frame_.Part(at_, size);
  at_ += WholeWords(size) * kWord;
  return OkStatus();
}

Status FlatReader::TakeMessage(Message* message) {
  message->clear();
  uint64_t count = 0;
  LOCKSTEP_RETURN_IF_ERROR(TakeWord(&count));
  if (count > kMostFlatFrames) return InvalidArgument("a message of ", count, " frames");
  std::array<uint64_t, kMostFlatFrames> sizes{};
  for (uint64_t i = 0; i < count; ++i) LOCKSTEP_RETURN_IF_ERROR(TakeWord(&sizes[i]));
  for (uint64_t i = 0; i < count; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(TakeBytes(sizes[i], &message->emplace_back()));
  }
  return OkStatus();
}

}  // namespace lockstep::control
