#include "tensorcask/tensor/inspect/draw.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

constexpr int64_t kLongestRow = 16;  // cells, where no stride suggests another length

// The elements that are drawn: [begin, end) along each axis.
struct Box {
  DimVector begin;
  DimVector end;
  int64_t repeats = 1;  // elements in each place, by axes of stride 0, of which the box has index 0 alone
  bool whole = true;    // nothing was left out
};

uint64_t Magnitude(int64_t stride) {
  return stride < 0 ? uint64_t{0} - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
}

Box ChooseBox(const Layout& layout, int64_t max_elements) {
  Box box;
  box.end.assign(layout.dims().begin(), layout.dims().end());
  box.begin.resize(box.end.size(), 0);
  int64_t count = 1;
  for (size_t axis = 0; axis < box.end.size(); ++axis) {
    if (layout.strides()[axis] == 0) box.repeats *= std::exchange(box.end[axis], 1);
    count *= box.end[axis];
  }
  // Cutting the axis of the largest stride keeps what is together in memory together.
  while (count > max_elements) {
    size_t cut = box.end.size();
    for (size_t axis = 0; axis < box.end.size(); ++axis) {
      if (box.end[axis] - box.begin[axis] == 1) continue;
      if (cut == box.end.size() || Magnitude(layout.strides()[axis]) > Magnitude(layout.strides()[cut])) cut = axis;
    }
    const int64_t size = box.end[cut] - box.begin[cut];
    const int64_t rest = count / size;
    const int64_t kept = std::max<int64_t>(max_elements / rest, 1);
    if (layout.strides()[cut] < 0) {
      box.begin[cut] = box.end[cut] - kept;  // the lowest memory is at the end of the axis
    } else {
      box.end[cut] = kept;
    }
    count = rest * kept;
    box.whole = false;
  }
  return box;
}

struct Cell {
  int64_t number;
  std::string text;
};

std::string IndexText(const DimVector& index) { return index.empty() ? "()" : absl::StrJoin(index, ","); }

// The occupied cells, in order.
std::vector<Cell> FillCells(const Layout& layout, const Box& box, int64_t* most_in_one) {
  std::vector<std::pair<int64_t, DimVector>> elements;  // sorted by cell, then by index
  DimVector index = box.begin;
  while (true) {
    // Partial sums may leave the layout's bounds, and wrap as unsigned numbers may; the whole does not.
    auto number = static_cast<uint64_t>(layout.offset());
    for (size_t axis = 0; axis < index.size(); ++axis) {
      number += static_cast<uint64_t>(index[axis]) * static_cast<uint64_t>(layout.strides()[axis]);
    }
    elements.emplace_back(static_cast<int64_t>(number), index);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == box.end[axis - 1]) {
      --axis;
      index[axis] = box.begin[axis];
    }
    if (axis == 0) break;
  }
  std::sort(elements.begin(), elements.end());

  std::vector<Cell> cells;
  *most_in_one = 0;
  for (size_t i = 0; i < elements.size();) {
    size_t end = i + 1;
    while (end < elements.size() && elements[end].first == elements[i].first) ++end;
    // Fits: it is at most the number of elements of the layout.
    const int64_t count = static_cast<int64_t>(end - i) * box.repeats;
    std::string text = IndexText(elements[i].second);
    if (count > 1) absl::StrAppend(&text, " x", count);
    cells.push_back({elements[i].first, std::move(text)});
    *most_in_one = std::max(*most_in_one, count);
    i = end;
  }
  return cells;
}

// The number of cells in a row: the largest stride up to `most`, but for the smallest one, which runs along the row.
int64_t ChooseRowCells(const Layout& layout, int64_t most) {
  uint64_t smallest = std::numeric_limits<uint64_t>::max();
  for (size_t axis = 0; axis < layout.dims().size(); ++axis) {
    const uint64_t stride = Magnitude(layout.strides()[axis]);
    if (layout.dims()[axis] > 1 && stride != 0) smallest = std::min(smallest, stride);
  }
  uint64_t chosen = 0;
  for (size_t axis = 0; axis < layout.dims().size(); ++axis) {
    const uint64_t stride = Magnitude(layout.strides()[axis]);
    if (layout.dims()[axis] > 1 && stride > smallest && stride <= static_cast<uint64_t>(most)) {
      chosen = std::max(chosen, stride);
    }
  }
  return chosen > 0 ? static_cast<int64_t>(chosen) : std::min(most, kLongestRow);
}

std::string Centred(absl::string_view text, size_t width) {
  const size_t left = (width - text.size()) / 2;
  return absl::StrCat(std::string(left, ' '), text, std::string(width - text.size() - left, ' '));
}

std::string RightAligned(int64_t number, size_t width) {
  const std::string text = absl::StrCat(number);
  return std::string(width - text.size(), ' ') + text;
}

// "[0:3,5:7]".
std::string RangesText(const Box& box) {
  std::vector<std::string> ranges;
  for (size_t axis = 0; axis < box.end.size(); ++axis) {
    ranges.push_back(absl::StrCat(box.begin[axis], ":", box.end[axis]));
  }
  return absl::StrCat("[", absl::StrJoin(ranges, ","), "]");
}

std::string Counted(int64_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// `memory_cells`: how many there are, from number 0.
std::string Draw(const Layout& layout, std::string heading, int64_t memory_cells, absl::string_view cell_size,
                 const DrawOptions& options) {
  if (layout.num_elements() == 0) return heading + ": no elements";
  const Box box = ChooseBox(layout, std::max(options.max_elements, 1));
  int64_t most_in_one = 0;
  const std::vector<Cell> cells = FillCells(layout, box, &most_in_one);

  const Layout::Range bounds = layout.bounds();
  absl::StrAppend(&heading, ": ", Counted(layout.num_elements(), "element"));
  if (box.whole) {
    absl::StrAppend(&heading, " in ", cells.size(), " of ", Counted(memory_cells, "cell"), cell_size);
    if (most_in_one > 1) absl::StrAppend(&heading, ", up to ", most_in_one, " in one");
  } else {
    absl::StrAppend(&heading, " between cells ", bounds.begin, " and ", bounds.end - 1, cell_size,
                    "\ndrawn: ", RangesText(box));
  }

  size_t width = 1;
  for (const Cell& cell : cells) width = std::max(width, cell.text.size());
  const size_t margin = absl::StrCat(cells.back().number).size();
  const int64_t fitting = (options.max_columns - static_cast<int64_t>(margin) - 2) / static_cast<int64_t>(width + 3);
  const int64_t row_cells = ChooseRowCells(layout, std::max<int64_t>(fitting, 1));

  const std::string indent(margin + 1, ' ');
  const auto border = [&](int64_t count) {
    std::string line = "\n" + indent;
    for (int64_t i = 0; i < count; ++i) absl::StrAppend(&line, "+", std::string(width + 2, '-'));
    return line + "+";
  };
  std::string picture = std::move(heading);
  int64_t border_above = 0;  // cells of the row before, whose lower border is still to come
  int64_t expected = 0;      // the first cell that was not drawn or counted yet
  const auto skip_to = [&](int64_t number) {
    if (number <= expected) return;
    if (border_above > 0) picture += border(border_above);
    absl::StrAppend(&picture, "\n", indent, ": ", Counted(number - expected, "cell"));
    border_above = 0;
  };
  for (size_t next = 0; next < cells.size();) {
    const int64_t first = cells[next].number - cells[next].number % row_cells;
    skip_to(first);
    size_t end = next;
    while (end < cells.size() && cells[end].number - first < row_cells) ++end;
    int64_t length = row_cells;
    if (end == cells.size()) {
      const int64_t last = box.whole ? memory_cells - 1 : cells.back().number;
      length = std::min(row_cells, last - first + 1);
    }
    absl::StrAppend(&picture, border(std::max(border_above, length)), "\n", RightAligned(first, margin), " ");
    for (int64_t number = first; number - first < length; ++number) {
      const bool occupied = next < end && cells[next].number == number;
      absl::StrAppend(&picture, "| ", Centred(occupied ? cells[next].text : ".", width), " ");
      if (occupied) ++next;
    }
    picture += '|';
    border_above = length;
    expected = first + length;
  }
  // What lies after a part of the elements is drawn in no picture.
  if (box.whole) skip_to(memory_cells);
  return border_above > 0 ? picture + border(border_above) : picture;
}

}  // namespace

std::string DrawLayout(const Layout& layout, const DrawOptions& options) {
  return Draw(layout, layout.ToString(), layout.bounds().end, "", options);
}

std::string DrawLayout(const TensorView& view, const DrawOptions& options) {
  const size_t cell_bytes = ObjectBytes(view.dtype());
  const size_t buffer_bytes = view.buffer() ? view.buffer()->size_bytes() : 0;
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();  // a buffer without data may claim any size
  return Draw(view.layout(), view.ToString(), static_cast<int64_t>(std::min(buffer_bytes / cell_bytes, kMost)),
              absl::StrCat(", ", cell_bytes, " bytes each"), options);
}

}  // namespace tensorcask
