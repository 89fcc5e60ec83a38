#include "tensorcask/tools/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tools/console.h"

namespace tensorcask::tools {
namespace {

constexpr size_t kMaxWidth = 80;       // one long cell does not widen the column of all others
constexpr size_t kLeastNameWidth = 8;  // of a shortened name

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The characters of UTF-8 text. (Wide characters of East Asian scripts count once.)
size_t Length(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

// "encoder/layer_0/kernel" -> "encoder/...0/kernel".
std::string Shortened(const std::string& text, size_t width) {
  const std::string dots = "...";
  const size_t length = Length(text);
  if (length <= width) return text;
  const size_t front = (width - dots.size()) / 2;
  const size_t back = width - dots.size() - front;
  std::string shortened;
  size_t position = 0;
  for (const char c : text) {
    if (StartsCharacter(c)) ++position;
    if (position == front + 1 && StartsCharacter(c)) shortened += dots;
    if (position <= front || position > length - back) shortened += c;
  }
  return shortened;
}

}  // namespace

void Table::Measure(const TableRow& row) {
  widths_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], std::min(Length(row[i]), kMaxWidth));
  longest_name_ = std::max(longest_name_, Length(row[0]));
}

// The width that the other columns leave for the first one.
size_t Table::RoomForNames() const {
  if (width_ == 0) return SIZE_MAX;
  size_t others = 0;
  for (size_t i = 1; i < widths_.size(); ++i) {
    if (widths_[i] > 0) others += widths_[i] + 2;
  }
  return std::max(kLeastNameWidth, width_ > others ? width_ - others : 0);
}

void Table::Print(TableRow row, std::ostream& out) const {
  const size_t room = RoomForNames();
  std::string line;
  row[0] = Shortened(row[0], room);
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t width = i == 0 && width_ > 0 ? std::min(longest_name_, room) : widths_[i];
    const std::string padding(width - std::min(width, Length(row[i])), ' ');
    const bool is_number = numbers_.count(i) > 0;
    absl::StrAppend(&line, i == 0 ? "" : "  ", is_number ? padding : "", row[i], is_number ? "" : padding);
  }
  out << absl::StripTrailingAsciiWhitespace(line) << '\n';
}

void PrintTable(std::vector<TableRow> rows, const std::set<size_t>& numbers, size_t width, std::ostream& out) {
  Table table(numbers, width);
  for (const TableRow& row : rows) table.Measure(row);
  for (TableRow& row : rows) table.Print(std::move(row), out);
}

size_t OutputWidth() { return TerminalWidth(STDOUT_FILENO); }

}  // namespace tensorcask::tools
