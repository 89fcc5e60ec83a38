#include "tensorcask/tools/output/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/output/text_width.h"

namespace tensorcask::tools {
namespace {

constexpr size_t kMaxWidth = 80;       // one long cell does not widen the column of all others
constexpr size_t kLeastNameWidth = 8;  // of a shortened name
constexpr size_t kGap = 2;             // between columns
constexpr size_t kIndent = 4;          // of the further lines of a row

// "encoder/layer_0/kernel" -> "encoder/...0/kernel".
std::string Shortened(const std::string& text, size_t width) {
  const absl::string_view dots = "...";
  if (TextWidth(text) <= width) return text;
  const size_t front = (width - dots.size()) / 2;
  return absl::StrCat(StartOfWidth(text, front), dots, EndOfWidth(text, width - dots.size() - front));
}

}  // namespace

void Table::Measure(const TableRow& row) {
  widths_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], std::min(TextWidth(row[i]), kMaxWidth));
  longest_name_ = std::max(longest_name_, TextWidth(row[0]));
}

// The end of the columns from `begin` on that one line holds.
size_t Table::EndOfLine(size_t begin) const {
  if (width_ == 0) return widths_.size();
  size_t used = begin == 0 ? std::min(longest_name_, kLeastNameWidth) : kIndent + widths_[begin];
  size_t end = begin + 1;
  for (; end < widths_.size(); ++end) {
    const size_t wanted = widths_[end] == 0 ? 0 : widths_[end] + kGap;
    if (used + wanted > width_) break;
    used += wanted;
  }
  return end;
}

// The width that the other columns of the first line leave for the name.
size_t Table::RoomForNames(size_t end) const {
  if (width_ == 0) return SIZE_MAX;
  size_t others = 0;
  for (size_t i = 1; i < end; ++i) {
    if (widths_[i] > 0) others += widths_[i] + kGap;
  }
  return std::max(kLeastNameWidth, width_ > others ? width_ - others : 0);
}

void Table::Print(TableRow row, std::ostream& out) const {
  for (size_t begin = 0; begin < row.size();) {
    const size_t end = EndOfLine(begin);
    const size_t room = RoomForNames(end);
    std::string line = begin == 0 ? "" : std::string(kIndent, ' ');
    if (begin == 0) row[0] = Shortened(row[0], room);
    for (size_t i = begin; i < end; ++i) {
      const size_t width = i == 0 && width_ > 0 ? std::min(longest_name_, room) : widths_[i];
      const std::string padding(width - std::min(width, TextWidth(row[i])), ' ');
      const bool is_number = numbers_.count(i) > 0;
      absl::StrAppend(&line, i == begin ? "" : std::string(kGap, ' '), is_number ? padding : "", row[i],
                      is_number ? "" : padding);
    }
    const absl::string_view text = absl::StripTrailingAsciiWhitespace(line);
    if (begin == 0 || !text.empty()) out << text << '\n';
    begin = end;
  }
}

void PrintTable(std::vector<TableRow> rows, const std::set<size_t>& numbers, size_t width, std::ostream& out) {
  Table table(numbers, width);
  for (const TableRow& row : rows) table.Measure(row);
  for (TableRow& row : rows) table.Print(std::move(row), out);
}

size_t OutputWidth() { return TerminalWidth(STDOUT_FILENO); }

}  // namespace tensorcask::tools
