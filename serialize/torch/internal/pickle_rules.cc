#include "tensorcask/serialize/torch/internal/pickle_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

// Equal for keys that Python calls equal; an object of its own is equal to itself.
std::pair<Kind, uint64_t> IdentityOfKey(const Pickle& pickle, Ref key) {
  const Object& object = pickle.object(key);
  switch (object.kind) {
    case Kind::kBool:
    case Kind::kInt:
      return {Kind::kInt, static_cast<uint64_t>(object.integer)};
    case Kind::kFloat: {
      constexpr double kMost = 9.0e18;
      const bool is_integer = object.real > -kMost && object.real < kMost &&
                              static_cast<double>(static_cast<int64_t>(object.real)) == object.real;
      if (is_integer) return {Kind::kInt, static_cast<uint64_t>(static_cast<int64_t>(object.real))};
      return {Kind::kFloat, static_cast<uint64_t>(object.integer)};
    }
    case Kind::kNone:
      return {Kind::kNone, 0};
    default:
      return {Kind::kObject, key};
  }
}

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

void DropEqualKeys(Pickle* pickle) {
  absl::flat_hash_map<std::pair<Kind, uint64_t>, size_t> places;
  for (const Object& object : pickle->objects) {
    if (object.kind != Kind::kDict) continue;
    RefList& list = pickle->lists[object.index];
    if (list.size <= 2) continue;
    const absl::Span<Ref> entries(list.items, list.size);
    places.clear();
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); i += 2) {
      const auto [place, is_new] = places.try_emplace(IdentityOfKey(*pickle, entries[i]), kept);
      if (is_new) {
        entries[kept] = entries[i];
        kept += 2;
      }
      entries[place->second + 1] = entries[i + 1];
    }
    list.size = kept;
  }
}

}  // namespace tensorcask::torch
