#include "tensorcask/tensor/base/varint.h"

namespace tensorcask {

bool internal::ParseLongVarint(absl::string_view* bytes, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size() && i < kMaxVarintBytes; ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

bool internal::ParseLongCanonicalVarint(absl::string_view* bytes, uint64_t* value) {
  absl::string_view rest = *bytes;
  uint64_t parsed = 0;
  if (!ParseVarint(&rest, &parsed)) return false;
  const size_t size = bytes->size() - rest.size();
  if (size != VarintSize(parsed)) return false;
  // Only one bit of the tenth byte is used; ParseVarint has dropped the others.
  if (size == kMaxVarintBytes && static_cast<uint8_t>((*bytes)[kMaxVarintBytes - 1]) > 1) return false;
  *bytes = rest;
  *value = parsed;
  return true;
}

}  // namespace tensorcask
