#include "tensorcask/tools/name_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace tensorcask::tools {
namespace {

constexpr size_t kManyTensors = 20;  // more than fit on a screen with their totals
constexpr size_t kFewGroups = 16;

// As a pattern that matches this text alone.
std::string AsPattern(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"*", "\\*"}, {"?", "\\?"}, {"[", "\\["}, {"\\", "\\\\"}});
}

}  // namespace

absl::string_view FirstParts(absl::string_view name, size_t parts) {
  size_t end = 0;
  for (; parts > 0; --parts) {
    const size_t separator = name.find_first_of("./", end);
    if (separator == absl::string_view::npos) return name;
    end = separator + 1;
  }
  return name.substr(0, end);
}

absl::string_view CommonParts(absl::string_view a, absl::string_view b) {
  const size_t size = std::min(a.size(), b.size());
  const auto same = static_cast<size_t>(std::mismatch(a.begin(), a.begin() + size, b.begin()).first - a.begin());
  const size_t separator = a.substr(0, same).find_last_of("./");
  return separator == absl::string_view::npos ? "" : a.substr(0, separator + 1);
}

void NameGroup::Add(absl::string_view name, absl::string_view type, uint64_t bytes) {
  common_ = std::string(tensors_ == 0 ? name : CommonParts(common_, name));
  ++tensors_;
  bytes_ = CheckedAdd(bytes_, bytes).value_or(UINT64_MAX);
  types_.emplace(type);
}

std::string NameGroup::pattern() const { return absl::StrCat(AsPattern(common_), tensors_ > 1 ? "*" : ""); }

void Overview::Measure(absl::string_view name) {
  common_ = std::string(common_.has_value() ? CommonParts(*common_, name) : name);
}

void Overview::Add(absl::string_view name, absl::string_view type, uint64_t bytes) {
  ++tensors_;
  if (groups_.size() > kFewGroups) return;
  const size_t begin = common_.value_or("").size();
  const absl::string_view rest = FirstParts(name.substr(std::min(begin, name.size())), 1);
  groups_[std::string(name.substr(0, begin + rest.size()))].Add(name, type, bytes);
}

std::map<std::string, NameGroup> Overview::groups() const {
  const bool is_short =
      tensors_ > kManyTensors && groups_.size() > 1 && groups_.size() <= kFewGroups && groups_.size() <= tensors_ / 2;
  return is_short ? groups_ : std::map<std::string, NameGroup>();
}

}  // namespace tensorcask::tools
