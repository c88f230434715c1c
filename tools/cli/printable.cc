#include "tools/cli/printable.h"

#include <cstddef>

#include "runtime/base/utf8.h"

namespace lockstep::cli {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Of a well-formed sequence: C0, DEL and C1 (U+0080 to U+009F), which some terminals obey too.
bool IsControl(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

void AppendEscaped(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += HexEscape(c);
    }
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || IsControl(sequence)) {
      AppendEscaped(out, sequence);
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string Shorten(std::string_view text, int width) {
  if (width <= 0) return "";
  int taken = 0;
  size_t cut = 0;  // where the last character that fits begins
  for (size_t at = 0; at < text.size(); ++at) {
    if (IsContinuation(static_cast<unsigned char>(text[at]))) continue;
    if (++taken == width) cut = at;
    if (taken > width) return std::string(text.substr(0, cut)) + "…";
  }
  return std::string(text);
}

}  // namespace lockstep::cli
