#include "tensorcask/tools/slice_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {
namespace {

// One axis in Python's form. A single index keeps its axis, with length 1.
struct PythonAxis {
  std::optional<int64_t> start;
  std::optional<int64_t> stop;
  bool is_index = false;
};

bool ParseNumber(absl::string_view text, std::optional<int64_t>* out) {
  int64_t number;
  if (text.empty()) return true;
  if (!absl::SimpleAtoi(text, &number)) return false;
  *out = number;
  return true;
}

// nullopt if `text` is not in Python's form. Without brackets each axis must have a ':', since "1,2" is TensorFlow's.
std::optional<std::vector<PythonAxis>> ParsePython(absl::string_view text) {
  const bool has_brackets = absl::StartsWith(text, "[") && absl::EndsWith(text, "]");
  if (has_brackets) text = text.substr(1, text.size() - 2);
  std::vector<PythonAxis> axes;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    if (has_brackets) part = absl::StripAsciiWhitespace(part);
    PythonAxis axis;
    const std::vector<absl::string_view> ends = absl::StrSplit(part, ':');
    if (ends.size() == 1) {
      if (!has_brackets || part.empty() || !ParseNumber(part, &axis.start)) return std::nullopt;
      axis.is_index = true;
    } else if (ends.size() != 2 || !ParseNumber(ends[0], &axis.start) || !ParseNumber(ends[1], &axis.stop)) {
      return std::nullopt;
    }
    axes.push_back(axis);
  }
  return axes;
}

absl::StatusOr<TensorSlice> Resolve(const std::vector<PythonAxis>& axes, const std::string& text,
                                    const TensorShape& shape) {
  if (axes.size() > static_cast<size_t>(shape.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the slice ", text, " has ", axes.size(), " axes; the tensor has rank ", shape.rank()));
  }
  std::vector<TensorSlice::Extent> extents(shape.rank());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = shape.dim(static_cast<int>(i));
    const auto from_start = [dim](int64_t index) { return index < 0 ? index + dim : index; };
    int64_t start = from_start(axes[i].start.value_or(0));
    int64_t stop = axes[i].is_index ? start + 1 : from_start(axes[i].stop.value_or(dim));
    if (!axes[i].is_index) {
      start = std::clamp<int64_t>(start, 0, dim);
      stop = std::clamp<int64_t>(stop, 0, dim);
    }
    if (start < 0 || start >= stop || stop > dim) {
      return absl::OutOfRangeError(
          absl::StrCat("the slice ", text, " selects nothing of axis ", i, ", which has ", dim, " elements"));
    }
    if (start > 0 || stop < dim) extents[i] = {start, stop - start};
  }
  return TensorSlice::Create(extents);
}

// What is wrong with a text that is neither form; "" if nothing more can be said.
std::string PythonMistake(absl::string_view text) {
  const bool has_brackets = absl::StartsWith(text, "[") && absl::EndsWith(text, "]") && text.size() > 1;
  if (!has_brackets && (absl::StartsWith(text, "[") || absl::EndsWith(text, "]")))
    return "; one of the brackets is missing";
  const std::vector<absl::string_view> axes =
      absl::StrSplit(has_brackets ? text.substr(1, text.size() - 2) : text, ',');
  for (const absl::string_view part : axes) {
    const absl::string_view axis = absl::StripAsciiWhitespace(part);
    if (axis.empty()) return "; an axis is empty";
    if (axis == "...") return "; \"...\" is not supported: write : for each axis";
    const std::vector<absl::string_view> ends = absl::StrSplit(axis, ':');
    std::optional<int64_t> number;
    for (const absl::string_view end : ends) {
      if (!ParseNumber(end, &number)) return absl::StrCat("; ", Quoted(end), " is not a number");
    }
    if (ends.size() > 2) return absl::StrCat("; ", Quoted(axis), " has a step, and steps are not supported");
  }
  if (has_brackets) return "";
  for (const absl::string_view axis : axes) {
    if (!absl::StrContains(axis, ':')) {
      return absl::StrCat("; the index ", Quoted(axis), " needs brackets around all axes: [", text, "]");
    }
  }
  return "";
}

}  // namespace

absl::Status CheckSliceText(const std::string& text) {
  const absl::StatusOr<TensorSlice> parsed = TensorSlice::Parse(text);
  if (parsed.ok() || ParsePython(text).has_value()) return absl::OkStatus();
  return Misuse(absl::StrCat("--slice ", Quoted(text), ": wanted START:STOP for each axis as in Python (0:2,:), or ",
                             "START,LENGTH or - for each axis (0,2:-)", PythonMistake(text)));
}

absl::StatusOr<TensorSlice> ParseSliceText(const std::string& text, const TensorShape& shape) {
  CASK_RETURN_IF_ERROR(CheckSliceText(text));
  absl::StatusOr<TensorSlice> parsed = TensorSlice::Parse(text);
  if (parsed.ok() && parsed->rank() != shape.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("the slice ", Quoted(text), " has ", parsed->rank(),
                                                   parsed->rank() == 1 ? " axis" : " axes", "; the tensor has rank ",
                                                   shape.rank(), " (- takes a whole axis)"));
  }
  if (parsed.ok()) return parsed;
  return Resolve(*ParsePython(text), text, shape);
}

}  // namespace tensorcask::tools
