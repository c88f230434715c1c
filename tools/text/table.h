// Aligned tables: whole, or as much of one as fits a terminal.
#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tools/text/terminal.h"

namespace lockstep::text {

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

// Of which a part is shown: what fits a terminal.
class FittedTable {
 public:
  struct Column {
    std::string header;
    Table::Align align = Table::Align::kLeft;
    int weight = 0;  // those of the least are left out where not all fit
  };

  // The last column is cut where the line ends.
  explicit FittedTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column.
  void AddRow(std::vector<Table::Cell> cells) { rows_.push_back(std::move(cells)); }

  // The header and `count` rows from `first` on, in lines of at most `width` characters; 0: as many
  // as it takes. Which columns are shown depends on all rows, so that they stay when rows scroll.
  std::vector<std::string> Render(const Style& style, int width, int first, int count) const;

 private:
  // As wide as its widest cell; 0: all cells are empty.
  int WidthOf(size_t column) const;
  std::vector<size_t> ColumnsFor(int width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Table::Cell>> rows_;
};

}  // namespace lockstep::text
