#include "tensorcask/serialize/torch/internal/pickle_rules.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

// Finds equal keys.
class Keys {
 public:
  // Both outlive this.
  Keys(const Pickle& pickle, PickleBuilder* builder) : pickle_(pickle), builder_(builder) {}

  // The first object that was asked for and is equal to this one. Texts and bytes are one object if they are equal.
  Ref First(Ref key, int depth = 0) {
    const auto known = tuples_.find(key);
    if (known != tuples_.end()) return known->second;
    const std::string text = TextOf(key, depth);
    Ref first = key;
    if (const auto found = first_.find(text); found != first_.end()) {
      first = found->second;
    } else if (!text.empty() && builder_->Charge(text.size() + kSlotBytes)) {
      first_.emplace(text, key);
    }
    if (IsTuple(pickle_.object(key).kind)) tuples_.emplace(key, first);
    return first;
  }

  // Whether Python would have refused one of these objects.
  bool found_unhashable() const { return found_unhashable_; }

 private:
  static constexpr uint64_t kSlotBytes = 2 * (sizeof(std::pair<std::string, Ref>) + sizeof(std::pair<Ref, Ref>));
  static constexpr int kMostNested = 1000;  // FindTensors refuses what is nested deeper

  static bool IsTuple(Kind kind) { return kind == Kind::kTuple || kind == Kind::kSize; }

  // Equal for equal numbers, of whichever type; "" for NaN.
  static std::string NumberText(double number) {
    if (std::isnan(number)) return "";
    if (std::isfinite(number) && std::trunc(number) == number) return absl::StrFormat("n%.0f", number + 0.0);  // no -0
    return absl::StrCat("f", FloatText(number));
  }

  // Equal for equal objects; "" for one that is equal to itself alone, and for texts and bytes.
  std::string TextOf(Ref key, int depth) {
    const Object& object = pickle_.object(key);
    switch (object.kind) {
      case Kind::kBool:
      case Kind::kInt:
        return absl::StrCat("n", object.integer);
      case Kind::kUint:
        return absl::StrCat("n", static_cast<uint64_t>(object.integer));
      case Kind::kBigInt:
        return absl::StrCat("n", object.text);
      case Kind::kFloat:
        return NumberText(object.real);
      case Kind::kComplex: {
        const std::complex<double> number = pickle_.complexes[object.index];
        if (number.imag() == 0 || std::isnan(number.real())) return NumberText(number.real());
        const std::string imaginary = NumberText(number.imag());
        return imaginary.empty() ? "" : absl::StrCat("c", NumberText(number.real()), imaginary);
      }
      case Kind::kDevice:
        return absl::StrCat("d", object.text);
      case Kind::kGlobal:
        return absl::StrCat("g", pickle_.globals[object.index].name);
      case Kind::kTuple:
      case Kind::kSize: {
        if (depth == kMostNested) return "";
        std::string text = "t";
        for (const Ref item : pickle_.items(key)) absl::StrAppend(&text, First(item, depth + 1), ",");
        return text;
      }
      case Kind::kList:
      case Kind::kDict:
      case Kind::kNumpyArray:
      case Kind::kNumpyDType:  // the same in two orders of bytes
        found_unhashable_ = true;
        return "";
      default:
        return "";
    }
  }

  const Pickle& pickle_;
  PickleBuilder* const builder_;
  absl::flat_hash_map<std::string, Ref> first_;  // by TextOf
  absl::flat_hash_map<Ref, Ref> tuples_;         // the First of each, because tuples may share tuples
  bool found_unhashable_ = false;
};

}  // namespace

absl::string_view RefusedName(unsigned char instruction) {
  switch (instruction) {
    case 'P':
      return "PERSID";
    case 'i':
      return "INST, which makes an object of a class";
    case 'o':
      return "OBJ, which makes an object of a class";
    case 0x82:
      return "EXT1, a name by number";
    case 0x83:
      return "EXT2, a name by number";
    case 0x84:
      return "EXT4, a name by number";
    case 0x97:
      return "NEXT_BUFFER, bytes outside the pickle";
    case 0x98:
      return "READONLY_BUFFER, bytes outside the pickle";
    case 'I':
    case 'L':
    case 'F':
    case 'S':
    case 'V':
    case 'l':
    case 'd':
    case 'g':
    case 'p':
      return "an instruction of protocol 0, which torch.save never writes";
    default:
      return "";
  }
}

std::string DecimalDigits(absl::string_view bytes) {
  std::vector<uint8_t> rest(bytes.begin(), bytes.end());
  const bool is_negative = (rest.back() & 0x80) != 0;
  if (is_negative) {  // the magnitude
    int carry = 1;
    for (uint8_t& byte : rest) {
      const int sum = static_cast<uint8_t>(~byte) + carry;
      byte = static_cast<uint8_t>(sum);
      carry = sum >> 8;
    }
  }
  std::string digits;
  constexpr uint32_t kGroup = 1'000'000'000;
  while (!rest.empty()) {
    uint64_t remainder = 0;
    for (size_t i = rest.size(); i > 0; --i) {
      const uint64_t value = remainder << 8 | rest[i - 1];
      rest[i - 1] = static_cast<uint8_t>(value / kGroup);
      remainder = value % kGroup;
    }
    while (!rest.empty() && rest.back() == 0) rest.pop_back();
    for (int i = 0; i < 9 && (!rest.empty() || remainder != 0); ++i, remainder /= 10) {
      digits += static_cast<char>('0' + remainder % 10);
    }
  }
  if (digits.empty()) digits = "0";
  if (is_negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

absl::Status DropEqualKeys(Pickle* pickle, PickleBuilder* builder) {
  Keys keys(*pickle, builder);
  absl::flat_hash_map<Ref, size_t> places;
  for (const Object& object : pickle->objects) {
    const size_t step = object.kind == Kind::kDict ? 2 : 1;
    if (object.kind != Kind::kDict && object.kind != Kind::kSet) continue;
    RefList& list = pickle->lists[object.index];
    places.clear();
    size_t kept = 0;
    for (size_t i = 0; i < list.size; i += step) {
      const bool is_set = pickle->object(list.items[i]).kind == Kind::kSet;  // as an item, it is a frozenset
      const auto [place, is_new] = places.try_emplace(keys.First(list.items[i]), kept);
      if (keys.found_unhashable() || (is_set && step == 2)) {
        return absl::DataLossError(
            "a key of a dict, or an item of a set, is a list, a dict, a set or an array, or has one");
      }
      if (is_new) {
        list.items[kept] = list.items[i];
        kept += step;
      }
      if (step == 2) list.items[place->second + 1] = list.items[i + 1];
    }
    list.size = kept;
  }
  return builder->status();
}

absl::Status ListDictAttributes(Pickle* pickle, PickleBuilder* builder) {
  const absl::Span<const Ref> states = builder->dict_states();
  if (states.empty()) return absl::OkStatus();
  if (!builder->Charge(pickle->objects.size() * (sizeof(Ref) + 1))) return builder->status();
  std::vector<bool> is_seen(pickle->objects.size());  // values: each is looked at once
  std::vector<Ref> open;
  const auto add = [&](Ref ref) {
    if (ref == kNoRef || is_seen[ref]) return;
    is_seen[ref] = true;
    open.push_back(ref);
  };
  std::vector<bool> is_read(pickle->objects.size());  // states, and names of attributes
  for (const Ref state : states) {
    const absl::Span<const Ref> entries = pickle->items(state);
    if (entries.empty()) continue;
    ++pickle->num_dict_states;
    if (is_read[state]) continue;
    is_read[state] = true;
    for (size_t i = 0; i < entries.size(); i += 2) {
      const Object& name = pickle->object(entries[i]);
      if (name.kind != Kind::kText) return absl::DataLossError("a dict has an attribute whose name is not text");
      if (name.text == "_metadata") continue;
      if (!is_read[entries[i]]) {
        is_read[entries[i]] = true;
        if (!builder->Charge(sizeof(std::string) + name.text.size())) return builder->status();
        pickle->dict_attributes.emplace_back(name.text);
      }
      add(entries[i + 1]);
      while (!open.empty()) {
        const Ref ref = open.back();
        open.pop_back();
        const Object& object = pickle->object(ref);
        switch (object.kind) {
          case Kind::kTensor:
          case Kind::kStorage:
            return absl::UnimplementedError(
                absl::StrCat("a dict has the attribute ", Quoted(name.text),
                             ", which is a tensor or has one; the "
                             "attributes of dicts are left out, and this tensor would be lost"));
          case Kind::kTuple:
          case Kind::kList:
          case Kind::kSet:
          case Kind::kSize:
          case Kind::kDict:
            for (const Ref item : pickle->items(ref)) add(item);
            break;
          case Kind::kObject: {
            const Instance& instance = pickle->instances[object.index];
            for (const Ref part : {instance.arguments, instance.state, instance.items, instance.entries}) add(part);
            break;
          }
          case Kind::kNumpyArray:
            add(pickle->numpy_arrays[object.index].state);
            break;
          default:
            break;
        }
      }
    }
  }
  return builder->status();
}

}  // namespace tensorcask::torch
