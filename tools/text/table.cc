#include "tools/text/table.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace lockstep::text {

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

namespace {

constexpr int kGap = 2;
// Of the last column, which is cut: less says nothing.
constexpr int kLeastLast = 40;

}  // namespace

int FittedTable::WidthOf(size_t column) const {
  int width = 0;
  for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[column].text));
  return width == 0 ? 0 : std::max(width, DisplayWidth(columns_[column].header));
}

std::vector<size_t> FittedTable::ColumnsFor(int width) const {
  std::vector<size_t> shown;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (WidthOf(i) > 0) shown.push_back(i);
  }
  while (width > 0 && shown.size() > 1) {
    int needed = -kGap;
    for (const size_t i : shown) {
      const bool is_last = i + 1 == columns_.size();
      needed += kGap + (is_last ? std::min(WidthOf(i), kLeastLast) : WidthOf(i));
    }
    if (needed <= width) break;
    shown.erase(std::min_element(shown.begin(), shown.end(), [&](size_t a, size_t b) {
      return columns_[a].weight < columns_[b].weight;
    }));
  }
  return shown;
}

std::vector<std::string> FittedTable::Render(const Style& style, int width, int first,
                                             int count) const {
  const std::vector<size_t> shown = ColumnsFor(width);
  // What is left for the last one.
  int room = width;
  for (const size_t i : shown) {
    if (i + 1 < columns_.size()) room -= WidthOf(i) + kGap;
  }
  // Cells are padded to the widths that they have in all rows, so that columns stay where they are.
  std::vector<Table::Column> columns;
  for (const size_t i : shown) columns.push_back({columns_[i].header, columns_[i].align});
  Table table(std::move(columns));
  const size_t end = std::min(rows_.size(), static_cast<size_t>(std::max(0, first + count)));
  for (size_t row = static_cast<size_t>(first); row < end; ++row) {
    std::vector<Table::Cell> cells;
    for (const size_t i : shown) {
      Table::Cell cell = rows_[row][i];  // printable already
      const bool is_last = i + 1 == columns_.size();
      if (is_last && width > 0) cell.text = Shorten(cell.text, room);
      const auto missing = static_cast<size_t>(std::max(0, WidthOf(i) - DisplayWidth(cell.text)));
      if (!is_last && columns_[i].align == Table::Align::kRight) cell.text.insert(0, missing, ' ');
      if (!is_last && columns_[i].align == Table::Align::kLeft) cell.text.append(missing, ' ');
      cells.push_back(std::move(cell));
    }
    table.AddRow(std::move(cells));
  }
  std::ostringstream text;
  // No width: what does not fit was left out here.
  table.Print(text, Style(style.enabled()));
  std::vector<std::string> lines;
  std::istringstream stream(text.str());
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace lockstep::text
