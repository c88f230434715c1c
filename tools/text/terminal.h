// Text on a terminal: colours, widths, and foreign text that must not move the cursor.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::text {

enum class Tint { kPlain, kBold, kDim, kGreen, kYellow, kRed };

// Colours text for a terminal, or leaves it alone.
class Style {
 public:
  explicit Style(bool enabled, int width = 0) : enabled_(enabled), width_(width) {}
  // Colours only if `fd` is a terminal that can show them and NO_COLOR (no-color.org) is not set.
  static Style For(int fd);

  bool enabled() const { return enabled_; }
  // Columns of the terminal; 0: no terminal, lines may have any length.
  int width() const { return width_; }
  std::string Paint(Tint tint, std::string_view text) const;

 private:
  bool enabled_;
  int width_;
};

// Columns of a terminal at `fd`; 80 if it is none.
int TerminalWidth(int fd);

// Characters that `text` takes on a terminal: its UTF-8 code points.
int DisplayWidth(std::string_view text);

// `text` without anything that ends a line, moves a cursor or colours what follows: control
// characters, those of Unicode too, and bytes that are no UTF-8 come as "\n", "\x1b".
std::string Printable(std::string_view text);

// The first `width` characters of printable text, the last of them an ellipsis if some are missing.
std::string Shorten(std::string_view text, int width);

// A line on standard error: "warning: TEXT".
void Warn(const std::string& text);

}  // namespace lockstep::text
