#include "tools/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace lockstep::cli {

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

void Table::AddRow(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

void Table::Print(std::ostream& out, const Style& style, int indent) const {
  std::vector<int> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  std::vector<size_t> shown;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (widths[i] == 0 && !rows_.empty()) continue;
    widths[i] = std::max(widths[i], DisplayWidth(columns_[i].header));
    shown.push_back(i);
  }
  int line_width = indent - 2;
  for (size_t i : shown) line_width += widths[i] + 2;
  const char* const gap = style.width() > 0 && line_width > style.width() ? " " : "  ";
  const auto print_line = [&](auto&& cell_of) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i : shown) {
      const Cell& cell = cell_of(i);
      const std::string padding(static_cast<size_t>(widths[i] - DisplayWidth(cell.text)), ' ');
      const bool right = columns_[i].align == Align::kRight;
      if (right) line += padding;
      line += style.Paint(cell.tint, cell.text);
      if (i == shown.back()) break;
      if (!right) line += padding;
      line += gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  std::vector<Cell> headers;
  for (const Column& column : columns_) headers.emplace_back(column.header, Tint::kDim);
  print_line([&](size_t i) -> const Cell& { return headers[i]; });
  for (const auto& row : rows_) {
    print_line([&](size_t i) -> const Cell& { return row[i]; });
  }
}

void Warn(const std::string& text) {
  std::cerr << Style::For(STDERR_FILENO).Paint(Tint::kYellow, "warning:") << ' ' << text << '\n';
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool fraction = unit > 0 && amount < 100 && amount != std::uint64_t(amount);
  char text[32];
  std::snprintf(text, sizeof(text), fraction ? "%.1f %s" : "%.0f %s", amount, kUnits[unit]);
  return text;
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string Plural(uint64_t count, std::string_view noun) {
  return FormatCount(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace lockstep::cli
