// Rows of text in columns, for a terminal or for other tools.
//
//   PrintTable({{"a", "12"}, {"bb", "3"}}, /*numbers=*/{1}, /*width=*/80, out);

#ifndef TENSORCASK_TOOLS_OUTPUT_TABLE_H_
#define TENSORCASK_TOOLS_OUTPUT_TABLE_H_

#include <cstddef>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tensorcask::tools {

using TableRow = std::vector<std::string>;

// Aligned columns, one row at a time: rows need not be in memory together.
class Table {
 public:
  // The columns `numbers` are aligned to the right. If a row is wider than `width`, its first cell, a name, is
  // shortened in the middle, to 8 columns at least. Columns that then do not fit go to further lines, which are
  // indented. 0: no width, every name whole, one line for each row.
  Table(std::set<size_t> numbers, size_t width) : numbers_(std::move(numbers)), width_(width) {}

  // First every row is measured, then every row is printed. All rows have the same number of cells.
  void Measure(const TableRow& row);
  void Print(TableRow row, std::ostream& out) const;

 private:
  size_t EndOfLine(size_t begin) const;
  size_t RoomForNames(size_t end) const;

  const std::set<size_t> numbers_;
  const size_t width_;
  std::vector<size_t> widths_;
  size_t longest_name_ = 0;
};

void PrintTable(std::vector<TableRow> rows, const std::set<size_t>& numbers, size_t width, std::ostream& out);

// The columns of the terminal that stdout is; 0 if it is not a terminal.
size_t OutputWidth();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_OUTPUT_TABLE_H_
