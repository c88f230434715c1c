#include "runtime/control/tree/tree_note.h"

#include <cstring>

namespace lockstep::control {

Message MakeNote(TreeWord word, uint64_t world, uint64_t value,
                 std::initializer_list<std::string_view> texts) {
  const TreeNote note{kTreeMagic, word, world, value};
  Message message{Frame::Copy(&note, sizeof note)};
  for (const std::string_view text : texts)
    message.push_back(Frame::Copy(text.data(), text.size()));
  return message;
}

std::optional<TreeNote> ReadTreeNote(const Message& message) {
  TreeNote note;
  if (message.empty() || message[0].size() < sizeof note) return std::nullopt;
  std::memcpy(&note, message[0].data(), sizeof note);
  if (note.magic != kTreeMagic) return std::nullopt;
  return note;
}

std::string_view TextOfNote(const Message& message, size_t index) {
  if (index + 1 >= message.size()) return "";
  const Frame& frame = message[index + 1];
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

}  // namespace lockstep::control
