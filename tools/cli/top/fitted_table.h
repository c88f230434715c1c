// A table that fits a terminal.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/output.h"

namespace lockstep::cli {

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

}  // namespace lockstep::cli
