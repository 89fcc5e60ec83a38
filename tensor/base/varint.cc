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
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size() && i < kMaxVarintBytes; ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      // A last byte of 0 adds nothing. 64 bits leave one bit to the tenth byte.
      if ((byte == 0 && i > 0) || (byte > 1 && i + 1 == kMaxVarintBytes)) return false;
      bytes->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

}  // namespace tensorcask
