#include "tensorcask/serialize/values/value_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 20;
constexpr char kEmptyMap[] = "map";

struct Container {
  ValueKind kind;
  absl::string_view name;
};
constexpr Container kContainers[] = {
    {ValueKind::kList, "list"}, {ValueKind::kTuple, "tuple"}, {ValueKind::kSet, "set"}, {ValueKind::kSize, "size"}};

const Container* ContainerOf(ValueKind kind) {
  const auto* const found =
      std::find_if(std::begin(kContainers), std::end(kContainers), [&](const Container& c) { return c.kind == kind; });
  return found == std::end(kContainers) ? nullptr : found;
}

std::string WithBits(absl::string_view name, int bits) {
  return bits == 0 ? std::string(name) : absl::StrCat(name, bits);
}

// The name of the type of a value without items; "" if it has no text.
std::string SingleType(ValueKind kind, int bits) {
  switch (kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return WithBits("int", bits);
    case ValueKind::kUint:
      return WithBits("uint", bits);
    case ValueKind::kBigInt:
      return "int";
    case ValueKind::kFloat:
      return WithBits("float", bits);
    case ValueKind::kText:
      return "text";
    default:
      return "";
  }
}

// The type of all items; "" if they have no text, or have several types.
std::string ItemType(Value list) {
  if (list.size() == 0) return SingleType(list.empty_item_kind(), list.bits());
  const std::string type = SingleType(list.item(0).kind(), list.item(0).bits());
  for (size_t i = 1; i < list.size(); ++i) {
    if (SingleType(list.item(i).kind(), list.item(i).bits()) != type) return "";
  }
  return type;
}

bool IsUtf8Text(Value value) { return value.kind() != ValueKind::kText || internal::IsUtf8(value.text()); }

bool MayBeText(Value value) {
  if (value.kind() == ValueKind::kMap) return value.size() == 0;
  if (ContainerOf(value.kind()) == nullptr) return !SingleType(value.kind(), value.bits()).empty() && IsUtf8Text(value);
  if (ItemType(value).empty()) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    if (!IsUtf8Text(value.item(i))) return false;
  }
  return true;
}

// The bits after `name`, of those that numbers have; -1: it is another type.
int WidthOf(absl::string_view type, absl::string_view name) {
  int bits = 0;
  if (!absl::ConsumePrefix(&type, name)) return -1;
  if (type.empty()) return 0;
  const bool is_width = absl::SimpleAtoi(type, &bits) && absl::StrCat(bits) == type;
  return is_width && (bits == 8 || bits == 16 || bits == 32 || bits == 64) ? bits : -1;
}

// JSON has neither blanks nor a plus sign before a number.
bool BeginsAsNumber(absl::string_view text) {
  if (absl::StartsWith(text, "-")) text.remove_prefix(1);
  return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         absl::ascii_isalnum(static_cast<unsigned char>(text.back()));
}

std::optional<ValueTree::Id> AddInteger(absl::string_view text, int bits, ValueTree* tree) {
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) {
    const int64_t most = bits == 0 || bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
    if (number > most || number < -most - 1) return std::nullopt;
    return tree->AddInt(number, bits);
  }
  const absl::string_view digits = absl::StripPrefix(text, "-");
  const bool is_integer = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (bits != 0 || !is_integer) return std::nullopt;
  return tree->AddText(text, ValueKind::kBigInt);
}

std::optional<ValueTree::Id> AddUnsigned(absl::string_view text, int bits, ValueTree* tree) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  if (bits != 0 && bits != 64 && number >> bits != 0) return std::nullopt;
  return tree->AddUint(number, bits);
}

std::optional<ValueTree::Id> AddFloating(absl::string_view text, int bits, ValueTree* tree) {
  if (text == "\"nan\"") return tree->AddFloat(std::numeric_limits<double>::quiet_NaN(), bits);
  if (text == "\"inf\"") return tree->AddFloat(std::numeric_limits<double>::infinity(), bits);
  if (text == "\"-inf\"") return tree->AddFloat(-std::numeric_limits<double>::infinity(), bits);
  double number = 0;
  if (!BeginsAsNumber(text) || !absl::SimpleAtod(text, &number)) return std::nullopt;
  if (bits > 32) return tree->AddFloat(number, bits);
  float narrow = 0;
  if (!absl::SimpleAtof(text, &narrow)) return std::nullopt;
  return tree->AddFloat(narrow, bits);
}

std::optional<ValueTree::Id> AddSingle(absl::string_view text, absl::string_view type, ValueTree* tree) {
  if (type == "none" && text == "null") return tree->AddNone();
  if (type == "bool" && (text == "true" || text == "false")) return tree->AddBool(text == "true");
  if (type == "text" && absl::StartsWith(text, "\"")) {
    std::string unquoted;
    if (!TakeJsonQuoted(&text, &unquoted) || !text.empty()) return std::nullopt;
    return tree->AddText(unquoted);
  }
  if (const int bits = WidthOf(type, "float"); bits > 8) return AddFloating(text, bits, tree);
  if (!BeginsAsNumber(text)) return std::nullopt;
  if (const int bits = WidthOf(type, "int"); bits >= 0) return AddInteger(text, bits, tree);
  if (const int bits = WidthOf(type, "uint"); bits >= 0) return AddUnsigned(text, bits, tree);
  return std::nullopt;
}

// The kind and width of the items of a list without items. Requires: AddSingle knows the type.
ValueTree::Id AddEmpty(ValueKind kind, absl::string_view type, ValueTree* tree) {
  if (kind != ValueKind::kList) return tree->AddItems(kind, {});
  if (type == "bool") return tree->AddEmptyList(ValueKind::kBool, 0);
  if (type == "text") return tree->AddEmptyList(ValueKind::kText, 0);
  if (const int bits = WidthOf(type, "float"); bits > 0) return tree->AddEmptyList(ValueKind::kFloat, bits);
  if (const int bits = WidthOf(type, "int"); bits > 0) return tree->AddEmptyList(ValueKind::kInt, bits);
  if (const int bits = WidthOf(type, "uint"); bits > 0) return tree->AddEmptyList(ValueKind::kUint, bits);
  return tree->AddItems(kind, {});
}

std::optional<ValueTree::Id> AddItems(ValueKind kind, absl::string_view text, absl::string_view type, ValueTree* tree) {
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) return std::nullopt;
  if (text.empty()) return AddEmpty(kind, type, tree);
  std::vector<ValueTree::Id> items;
  while (true) {
    absl::string_view rest = text;
    std::string unquoted;
    if (absl::StartsWith(text, "\"")) {
      if (!TakeJsonQuoted(&rest, &unquoted)) return std::nullopt;
    } else {
      rest.remove_prefix(std::min(text.find(','), text.size()));
    }
    const std::optional<ValueTree::Id> item = AddSingle(text.substr(0, text.size() - rest.size()), type, tree);
    if (!item.has_value()) return std::nullopt;
    items.push_back(*item);
    if (rest.empty()) return tree->AddItems(kind, items);
    if (!absl::ConsumePrefix(&rest, ",")) return std::nullopt;
    text = rest;
  }
}

}  // namespace

std::optional<std::string> ValueText(Value value) {
  if (!MayBeText(value)) return std::nullopt;
  ValueJsonOptions options;
  options.max_bytes = kMaxTextBytes;
  absl::StatusOr<std::string> json = ValueToJson(value, options);
  if (!json.ok() || json->size() > kMaxTextBytes) return std::nullopt;
  return *std::move(json);
}

std::string ValueTextType(Value value) {
  if (value.kind() == ValueKind::kMap) return kEmptyMap;
  const Container* const container = ContainerOf(value.kind());
  if (container == nullptr) return SingleType(value.kind(), value.bits());
  return absl::StrCat(container->name, "(", ItemType(value), ")");
}

std::optional<ValueTree::Id> AddValueOfText(absl::string_view text, absl::string_view type, ValueTree* tree) {
  if (text.size() > kMaxTextBytes) return std::nullopt;
  if (type == kEmptyMap) return text == "{}" ? std::make_optional(tree->AddMap({})) : std::nullopt;
  for (const Container& container : kContainers) {
    absl::string_view item = type;
    if (absl::ConsumePrefix(&item, container.name) && absl::ConsumePrefix(&item, "(") &&
        absl::ConsumeSuffix(&item, ")")) {
      return AddItems(container.kind, text, item, tree);
    }
  }
  return AddSingle(text, type, tree);
}

}  // namespace tensorcask
