// What people and scripts see on standard output: aligned tables, a few colours, or JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/printable.h"

namespace lockstep::cli {

enum class OutputFormat { kTable, kJson };

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

// Rows under headers, with columns as wide as their widest cell.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string header;
    Align align = Align::kLeft;
  };
  struct Cell {
    // Whatever its text is, it stays a cell: see Printable().
    Cell(const std::string& cell_text, Tint cell_tint = Tint::kPlain)  // NOLINT: text is a cell
        : text(Printable(cell_text)), tint(cell_tint) {}
    Cell(const char* cell_text) : Cell(std::string(cell_text)) {}  // NOLINT: text is a cell

    std::string text;
    Tint tint = Tint::kPlain;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column.
  void AddRow(std::vector<Cell> cells);
  // Columns whose cells are all empty are left out. Each line starts with `indent` spaces. Columns
  // are two spaces apart, or one where two would not fit the terminal.
  void Print(std::ostream& out, const Style& style, int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// A line on standard error: "warning: TEXT".
void Warn(const std::string& text);

// "812 B", "1.5 KiB", "16 GiB"
std::string FormatBytes(uint64_t bytes);
// "12,345,678"
std::string FormatCount(uint64_t count);
// "1 worker", "4 workers"
std::string Plural(uint64_t count, std::string_view noun);

}  // namespace lockstep::cli
