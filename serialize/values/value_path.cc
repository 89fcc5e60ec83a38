#include "tensorcask/serialize/values/value_path.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

bool IsNumber(const PathStep& step) {
  return step.kind == PathStep::Kind::kIntKey || step.kind == PathStep::Kind::kPosition;
}

bool IsEntered(ValueKind kind) {
  return kind == ValueKind::kMap || kind == ValueKind::kList || kind == ValueKind::kTuple || kind == ValueKind::kSet ||
         kind == ValueKind::kSize;
}

// A step as a name says it.
struct NamedStep {
  bool is_text = false;
  std::string text;
  std::optional<int64_t> number;
};

absl::Status BadName(absl::string_view name, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(name), " of a value ", why));
}

// Takes the first step of *rest. Requires: there is one.
absl::StatusOr<NamedStep> TakeStep(absl::string_view name, bool is_first, absl::string_view* rest) {
  NamedStep step;
  if (rest->front() == '[') {
    rest->remove_prefix(1);
    if (absl::StartsWith(*rest, "\"")) {
      step.is_text = true;
      if (!TakeJsonQuoted(rest, &step.text))
        return BadName(name, "has a key in quotes without an end, or a wrong escape");
    } else {
      const absl::string_view digits = rest->substr(0, rest->find(']'));
      int64_t number = 0;
      if (!absl::SimpleAtoi(digits, &number) || absl::StrCat(number) != digits) {
        return BadName(name, "has neither a number nor a key in quotes between brackets");
      }
      step.number = number;
      rest->remove_prefix(digits.size());
    }
    if (!absl::StartsWith(*rest, "]")) return BadName(name, "has a bracket without its end");
    rest->remove_prefix(1);
    return step;
  }
  if (!is_first) {
    if (rest->front() != '.') return BadName(name, "has neither a dot nor a bracket behind a bracket");
    rest->remove_prefix(1);
  }
  const absl::string_view text = rest->substr(0, rest->find_first_of(".["));
  step.is_text = true;
  step.text = std::string(text);
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text) step.number = number;
  rest->remove_prefix(text.size());
  return step;
}

// What the name of a key that is its text has; nullopt for another key.
std::optional<absl::string_view> OwnText(Value key) {
  switch (key.kind()) {
    case ValueKind::kText:
    case ValueKind::kBytes:
    case ValueKind::kBigInt:
    case ValueKind::kDevice:
      return key.text();
    case ValueKind::kObject:
      return key.class_name();
    default:
      return std::nullopt;
  }
}

bool IsSpelled(Value key, absl::string_view text) {
  if (const std::optional<absl::string_view> own = OwnText(key); own.has_value()) return *own == text;
  return key.kind() != ValueKind::kInt && KeyText(key) == text;
}

std::optional<Value> KeyOfMap(Value map, const NamedStep& step) {
  std::optional<Value> by_number;
  std::optional<Value> by_spelling;
  for (size_t i = map.size(); i > 0; --i) {
    const Value key = map.key(i - 1);
    if (step.is_text && key.kind() == ValueKind::kText && key.text() == step.text) return map.entry(i - 1);
    const bool is_it = step.number.has_value() && ((key.kind() == ValueKind::kInt && key.int_value() == *step.number) ||
                                                   (key.kind() == ValueKind::kUint && *step.number >= 0 &&
                                                    key.uint_value() == static_cast<uint64_t>(*step.number)));
    if (is_it && !by_number.has_value()) by_number = map.entry(i - 1);
    const bool is_spelled = step.is_text && !by_spelling.has_value() && IsSpelled(key, step.text);
    if (is_spelled) by_spelling = map.entry(i - 1);
  }
  return by_number.has_value() ? by_number : by_spelling;
}

std::optional<Value> Child(Value of, const NamedStep& step) {
  if (of.kind() == ValueKind::kMap) return KeyOfMap(of, step);
  if (of.kind() == ValueKind::kObject && of.state().kind() == ValueKind::kMap) return KeyOfMap(of.state(), step);
  if (!step.number.has_value() || *step.number < 0 || static_cast<uint64_t>(*step.number) >= of.size()) {
    return std::nullopt;
  }
  return of.item(static_cast<size_t>(*step.number));
}

// A value, and the rest of the name below it.
struct Place {
  Value value;
  absl::string_view rest;
};

// The places that the start of `rest` leads to: the step, and each longer text key that begins with it and a dot.
std::vector<Place> NextPlaces(Value of, NamedStep step, bool is_bare, absl::string_view rest) {
  std::vector<Place> places;
  const std::optional<Value> child = Child(of, step);
  if (child.has_value()) places.push_back({*child, rest});
  step.number = std::nullopt;
  while (is_bare && absl::StartsWith(rest, ".")) {
    const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
    absl::StrAppend(&step.text, rest.substr(0, end));
    rest.remove_prefix(end);
    const std::optional<Value> longer = Child(of, step);
    if (longer.has_value()) places.push_back({*longer, rest});
  }
  return places;
}

}  // namespace

std::string KeyText(Value key) {
  constexpr size_t kMostBytes = 256;
  if (const std::optional<absl::string_view> own = OwnText(key); own.has_value()) return std::string(*own);
  switch (key.kind()) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return key.bool_value() ? "True" : "False";
    case ValueKind::kInt:
      return absl::StrCat(key.int_value());
    case ValueKind::kUint:
      return absl::StrCat(key.uint_value());
    case ValueKind::kFloat:
      return FloatText(key.float_value(), key.bits());
    case ValueKind::kDType:
      return absl::StrCat("torch.", key.text());
    case ValueKind::kTuple:
    case ValueKind::kSize: {
      std::string text = "(";
      for (size_t i = 0; i < key.size() && text.size() <= kMostBytes; ++i) {
        const Value item = key.item(i);
        const std::optional<absl::string_view> own = item.num_children() == 0 ? OwnText(item) : absl::string_view("..");
        absl::StrAppend(&text, i > 0 ? ", " : "", own.has_value() ? own->substr(0, kMostBytes) : KeyText(item));
      }
      return text + ")";
    }
    default:
      return "(a value)";
  }
}

PathStep StepTo(Value key) {
  PathStep step;
  if (key.kind() == ValueKind::kInt) {
    step.kind = PathStep::Kind::kIntKey;
    step.number = key.int_value();
  } else {
    step.text = KeyText(key);
  }
  return step;
}

uint64_t GrowingName::MaxBytesFor(const ValueTree& tree) {
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  constexpr uint64_t kTimes = 8;
  return kLeast + kTimes * tree.memory_bytes();
}

void GrowingName::Enter(Value parent, size_t i) {
  const size_t begin = text_.size();
  const bool is_first = steps_.empty();
  bool cut = is_cut();
  const auto append = [&](absl::string_view step) {
    cut = cut || step.size() + 1 > bytes_left_;
    if (cut) return;
    bytes_left_ -= step.size() + 1;
    absl::StrAppend(&text_, is_first ? "" : ".", step);
  };
  if (parent.kind() != ValueKind::kMap) {
    append(absl::StrCat(i));
  } else if (const std::optional<absl::string_view> own = OwnText(parent.key(i)); own.has_value()) {
    append(*own);
  } else {
    append(KeyText(parent.key(i)));
  }
  steps_.push_back({begin, cut});
}

void GrowingName::Leave() {
  text_.resize(steps_.back().begin);
  steps_.pop_back();
}

std::string JoinedName(absl::Span<const PathStep> path) {
  constexpr size_t kNumberBytes = 20;
  size_t size = 0;
  for (const PathStep& step : path) size += 1 + (IsNumber(step) ? kNumberBytes : step.text.size());
  std::string name;
  name.reserve(size);
  for (const PathStep& step : path) {
    if (&step != &path.front()) name += '.';
    if (IsNumber(step)) {
      absl::StrAppend(&name, step.number);
    } else {
      name += step.text;
    }
  }
  return name;
}

std::string ExactName(absl::Span<const PathStep> path) {
  std::string name;
  for (const PathStep& step : path) {
    if (IsNumber(step)) {
      absl::StrAppend(&name, "[", step.number, "]");
    } else if (step.kind == PathStep::Kind::kAttribute) {
      absl::StrAppend(&name, ".", step.text);
    } else {
      absl::StrAppend(&name, "[", JsonQuoted(step.text), "]");
    }
  }
  return name;
}

absl::StatusOr<Value> FindValue(Value root, absl::string_view name, std::string* in_array) {
  absl::Status first_missing;
  std::vector<Place> open = {{root, name}};                        // the last one comes next
  if (absl::StartsWith(name, ".")) open[0].rest.remove_prefix(1);  // an attribute of the root
  const size_t whole = open[0].rest.size();
  std::set<std::pair<ValueTree::Id, size_t>> seen;
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (place.rest.empty()) return place.value;
    if (place.value.kind() == ValueKind::kFileArray && in_array != nullptr) {
      *in_array = std::string(place.rest);
      return place.value;
    }
    if (!seen.emplace(place.value.id(), place.rest.size()).second) continue;
    absl::string_view rest = place.rest;
    const bool is_bare = !absl::StartsWith(rest, "[");
    CASK_ASSIGN_OR_RETURN(NamedStep step, TakeStep(name, rest.size() == whole, &rest));
    const std::vector<Place> next = NextPlaces(place.value, std::move(step), is_bare, rest);
    open.insert(open.end(), next.rbegin(), next.rend());
    if (next.empty() && first_missing.ok()) {
      const absl::string_view before = name.substr(0, name.size() - place.rest.size());
      const absl::string_view missing = place.rest.substr(0, place.rest.size() - rest.size());
      first_missing = absl::NotFoundError(absl::StrCat("no value ", Quoted(missing), " in ",
                                                       before.empty() ? "the values of the file" : Quoted(before)));
    }
  }
  return first_missing;
}

bool ForEachInMaps(Value root, uint64_t max_values,
                   absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit) {
  return ForEachValue(
      root, max_values,
      [](absl::Span<const PathStep> /*path*/, Value value) { return value.kind() == ValueKind::kMap; }, visit);
}

bool ForEachValue(Value root, uint64_t max_values,
                  absl::FunctionRef<bool(absl::Span<const PathStep> path, Value value)> enters,
                  absl::FunctionRef<void(absl::Span<const PathStep> path, Value value)> visit) {
  constexpr size_t kMaxDepth = 32;
  constexpr uint64_t kBytesOfOne = 64;  // of a key, that count as one value
  struct Open {
    Value parent;
    size_t next;  // entry or item
  };
  std::vector<Open> open;
  std::vector<PathStep> path;  // leads to the value that comes next
  Value value = root;
  for (uint64_t seen = 0; seen < max_values; ++seen) {
    if (path.size() < kMaxDepth && IsEntered(value.kind()) && enters(path, value)) {
      open.push_back({value, 0});
      path.emplace_back();
    } else {
      visit(path, value);
    }
    while (!open.empty() && open.back().next == open.back().parent.size()) {
      open.pop_back();
      path.pop_back();
    }
    if (open.empty()) return true;
    const size_t next = open.back().next++;
    const Value parent = open.back().parent;
    const bool is_map = parent.kind() == ValueKind::kMap;
    path.back() =
        is_map ? StepTo(parent.key(next)) : PathStep{PathStep::Kind::kPosition, "", static_cast<int64_t>(next)};
    seen += path.back().text.size() / kBytesOfOne;
    value = is_map ? parent.entry(next) : parent.item(next);
  }
  return false;
}

}  // namespace tensorcask
