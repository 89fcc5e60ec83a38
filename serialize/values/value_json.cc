#include "tensorcask/serialize/values/value_json.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/tensor/base/json_string.h"

namespace tensorcask {
namespace {

enum class MapForm { kTextKeys, kIntegerKeys, kPairs };

bool IsInteger(ValueKind kind) {
  return kind == ValueKind::kInt || kind == ValueKind::kUint || kind == ValueKind::kBigInt;
}

MapForm FormOf(Value map) {
  bool text = true;
  bool integers = true;
  for (size_t i = 0; i < map.size(); ++i) {
    const ValueKind kind = map.key(i).kind();
    text = text && kind == ValueKind::kText;
    integers = integers && IsInteger(kind);
  }
  return text ? MapForm::kTextKeys : integers ? MapForm::kIntegerKeys : MapForm::kPairs;
}

std::string JsonFloat(double value, int bits) {
  return std::isfinite(value) ? FloatText(value, bits) : absl::StrCat("\"", FloatText(value, bits), "\"");
}

absl::string_view KindName(ValueKind kind) {
  switch (kind) {
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return "int";
    case ValueKind::kUint:
      return "uint";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kText:
      return "text";
    default:
      return "bytes";
  }
}

std::string IntegerText(Value value) {
  if (value.kind() == ValueKind::kInt) return absl::StrCat(value.int_value());
  if (value.kind() == ValueKind::kUint) return absl::StrCat(value.uint_value());
  return std::string(value.text());
}

class JsonWriter {
 public:
  explicit JsonWriter(const ValueJsonOptions& options) : options_(options) {}

  absl::StatusOr<std::string> Write(Value root) {
    const auto past_limit = [this] {
      return absl::ResourceExhaustedError(
          absl::StrCat("the values take more than ", options_.max_bytes, " bytes as JSON"));
    };
    // Each value has a byte at least. Two lists may hold the same one, and 40 such pairs 2^40 values.
    if (root.num_values() > options_.max_bytes) return past_limit();
    Open(root);
    while (!open_.empty()) {
      if (out_.size() > options_.max_bytes) return past_limit();
      Parent& parent = open_.back();
      if (parent.next == parent.value.num_children()) {
        out_ += parent.end;
        open_.pop_back();
      } else {
        Next(&parent);
      }
    }
    return std::move(out_);
  }

 private:
  // A value whose children are being written.
  struct Parent {
    Value value;
    MapForm form;
    const char* end;
    size_t next = 0;
  };

  // Writes what is before the next child, and then the child or its beginning.
  void Next(Parent* parent) {
    const size_t i = parent->next++;
    const Value child = parent->value.child(i);
    if (parent->value.kind() == ValueKind::kObject) {
      out_ += i == 0 ? ",\"arguments\":" : ",\"state\":";
    } else if (parent->value.kind() != ValueKind::kMap) {
      if (i > 0) out_ += ',';
    } else if (parent->form == MapForm::kPairs) {
      out_ += i % 2 == 1 ? "," : i == 0 ? "[" : "],[";
    } else if (i % 2 == 1) {
      out_ += ':';
    } else {
      if (i > 0) out_ += ',';
      out_ +=
          parent->form == MapForm::kTextKeys ? JsonQuoted(child.text()) : absl::StrCat("\"", IntegerText(child), "\"");
      return;
    }
    Open(child);  // *parent may be gone
  }

  void Open(Value value) {
    switch (value.kind()) {
      case ValueKind::kNone:
        out_ += "null";
        break;
      case ValueKind::kBool:
        out_ += value.bool_value() ? "true" : "false";
        break;
      case ValueKind::kInt:
      case ValueKind::kUint:
      case ValueKind::kBigInt:
        out_ += IntegerText(value);
        break;
      case ValueKind::kFloat:
        out_ += JsonFloat(value.float_value(), value.bits());
        break;
      case ValueKind::kComplex: {
        const std::complex<double> number = value.complex_value();
        absl::StrAppend(&out_, "[", JsonFloat(number.real(), value.bits() / 2), ",",
                        JsonFloat(number.imag(), value.bits() / 2), "]");
        break;
      }
      case ValueKind::kText:
      case ValueKind::kDType:
      case ValueKind::kDevice:
        out_ += JsonQuoted(value.text());
        break;
      case ValueKind::kBytes:
        absl::StrAppend(&out_, "{\"bytes\":\"", absl::BytesToHexString(value.text()), "\"}");
        break;
      case ValueKind::kTensor:
        absl::StrAppend(
            &out_, "{\"tensor\":",
            options_.tensor_name ? JsonQuoted(options_.tensor_name(value.tensor())) : absl::StrCat(value.tensor()),
            "}");
        break;
      case ValueKind::kFileArray: {
        const FileArray& array = value.file_array();
        absl::StrAppend(&out_, "{\"array\":\"", KindName(array.kind), "\",\"bits\":", array.bits);
        absl::StrAppend(&out_, ",\"count\":", array.count, ",\"offset\":", array.offset);
        absl::StrAppend(&out_, ",\"stored_bytes\":", array.stored_bytes, "}");
        break;
      }
      case ValueKind::kList:
      case ValueKind::kTuple:
      case ValueKind::kSet:
      case ValueKind::kSize:
        out_ += '[';
        open_.push_back({value, MapForm::kPairs, "]"});
        break;
      case ValueKind::kMap: {
        const MapForm form = FormOf(value);
        out_ += form == MapForm::kPairs ? "{\"map\":[" : "{";
        open_.push_back({value, form, form == MapForm::kPairs ? "]]}" : "}"});
        break;
      }
      case ValueKind::kObject:
        absl::StrAppend(&out_, "{\"object\":", JsonQuoted(value.class_name()));
        open_.push_back({value, MapForm::kPairs, "}"});
        break;
    }
  }

  const ValueJsonOptions& options_;
  std::vector<Parent> open_;
  std::string out_;
};

}  // namespace

std::string JsonQuoted(absl::string_view text) {
  std::string out;
  internal::AppendJsonString(text, internal::JsonEscapes::kUnicode, &out);
  return out;
}

bool TakeJsonQuoted(absl::string_view* rest, std::string* text) {
  rest->remove_prefix(1);
  while (!rest->empty() && rest->front() != '"') {
    char c = rest->front();
    rest->remove_prefix(1);
    if (c == '\\') {
      if (rest->empty()) return false;
      c = rest->front();
      rest->remove_prefix(1);
      if (c == 'u') {
        uint32_t code = 0;
        if (rest->size() < 4 || !absl::SimpleHexAtoi(rest->substr(0, 4), &code) || code > 0x7f) return false;
        c = static_cast<char>(code);
        rest->remove_prefix(4);
      } else if (c != '"' && c != '\\' && c != '/') {
        return false;
      }
    }
    text->push_back(c);
  }
  if (rest->empty()) return false;
  rest->remove_prefix(1);
  return true;
}

std::string FloatText(double value, int bits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  constexpr int kEnough = 17;
  std::string text;
  for (int digits = bits <= 32 ? 6 : 15; digits <= kEnough; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    const bool is_same = absl::SimpleAtod(text, &back) &&
                         (bits <= 32 ? static_cast<float>(back) == static_cast<float>(value) : back == value);
    if (is_same) break;
  }
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

absl::StatusOr<std::string> ValueToJson(Value value, const ValueJsonOptions& options) {
  return JsonWriter(options).Write(value);
}

}  // namespace tensorcask
