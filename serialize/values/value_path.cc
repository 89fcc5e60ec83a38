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

std::optional<Value> KeyOfMap(Value map, const NamedStep& step) {
  std::optional<Value> by_number;
  for (size_t i = map.size(); i > 0; --i) {
    const Value key = map.key(i - 1);
    if (step.is_text && key.kind() == ValueKind::kText && key.text() == step.text) return map.entry(i - 1);
    const bool is_it = step.number.has_value() && ((key.kind() == ValueKind::kInt && key.int_value() == *step.number) ||
                                                   (key.kind() == ValueKind::kUint && *step.number >= 0 &&
                                                    key.uint_value() == static_cast<uint64_t>(*step.number)));
    if (is_it && !by_number.has_value()) by_number = map.entry(i - 1);
  }
  return by_number;
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

PathStep StepTo(Value key) {
  PathStep step;
  if (key.kind() == ValueKind::kInt) {
    step.kind = PathStep::Kind::kIntKey;
    step.number = key.int_value();
  } else {
    step.text = key.kind() == ValueKind::kText ? std::string(key.text()) : ValueToJson(key).value_or("?");
  }
  return step;
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
    value = is_map ? parent.entry(next) : parent.item(next);
  }
  return false;
}

}  // namespace tensorcask
