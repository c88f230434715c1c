#include "tools/text/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>

#include "runtime/base/utf8.h"

namespace lockstep::text {
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

Style Style::For(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool capable = terminal != nullptr && std::string_view(terminal) != "dumb";
  const bool is_terminal = isatty(fd) == 1;
  return Style(is_terminal && capable && (no_color == nullptr || *no_color == '\0'),
               is_terminal ? TerminalWidth(fd) : 0);
}

std::string Style::Paint(Tint tint, std::string_view text) const {
  if (!enabled_ || tint == Tint::kPlain || text.empty()) return std::string(text);
  const char* code = "";
  switch (tint) {
    case Tint::kPlain:
      break;
    case Tint::kBold:
      code = "1";
      break;
    case Tint::kDim:
      code = "2";
      break;
    case Tint::kGreen:
      code = "32";
      break;
    case Tint::kYellow:
      code = "33";
      break;
    case Tint::kRed:
      code = "31";
      break;
  }
  return std::string("\033[") + code + "m" + std::string(text) + "\033[0m";
}

int TerminalWidth(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

int DisplayWidth(std::string_view text) {
  // Continuation bytes are 10xxxxxx.
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

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

void Warn(const std::string& text) {
  std::cerr << Style::For(STDERR_FILENO).Paint(Tint::kYellow, "warning:") << ' ' << text << '\n';
}

}  // namespace lockstep::text
