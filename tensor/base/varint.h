// Base-128 varints: seven bits a byte, the least significant group first, the high bit set in all bytes but the last.
//
//   std::string bytes;
//   AppendVarint(300, &bytes);                   // "\xac\x02", and VarintSize(300) is 2
//   absl::string_view rest = bytes;
//   uint64_t value = 0;
//   if (!ParseVarint(&rest, &value)) return absl::InvalidArgumentError("the varint is cut short");
//
// There are two parsers, because two specifications differ about varints that are longer than their value needs:
// ParseVarint accepts them, as protobuf does (protobuf.dev/programming-guides/encoding), and ParseCanonicalVarint
// rejects them, so that each number has one form. On failure both leave their arguments as they were.

#ifndef TENSORCASK_TENSOR_BASE_VARINT_H_
#define TENSORCASK_TENSOR_BASE_VARINT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask {

inline constexpr size_t kMaxVarintBytes = 10;

// The bytes that `value` takes, 1 to 10. (7 bits a byte, so ceil(width / 7), and (9 w + 64) / 64 is that for w <= 64.)
inline size_t VarintSize(uint64_t value) {
  const unsigned width = 64U - static_cast<unsigned>(__builtin_clzll(value | 1));
  return (9 * width + 64) / 64;
}

// Writes VarintSize(value) bytes at `out` and returns their end.
inline char* WriteVarint(uint64_t value, char* out) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

inline void AppendVarint(uint64_t value, std::string* out) {
  char bytes[kMaxVarintBytes];
  const char* const end = WriteVarint(value, bytes);
  out->append(bytes, static_cast<size_t>(end - bytes));
}

namespace internal {
// What the parsers below do with varints that begin with a byte of 0x80 or more.
bool ParseLongVarint(absl::string_view* bytes, uint64_t* value);
bool ParseLongCanonicalVarint(absl::string_view* bytes, uint64_t* value);
}  // namespace internal

// Moves one varint from the front of *bytes to *value by protobuf's rules: up to ten bytes, bits past the 64th are
// dropped. False if it is cut short or longer.
inline bool ParseVarint(absl::string_view* bytes, uint64_t* value) {
  if (bytes->empty() || static_cast<uint8_t>(bytes->front()) >= 0x80) return internal::ParseLongVarint(bytes, value);
  *value = static_cast<uint8_t>(bytes->front());  // one byte, as most varints are
  bytes->remove_prefix(1);
  return true;
}

// The same for the shortest form of a number alone. False if the varint is cut short, past 64 bits, or longer than its
// value needs.
inline bool ParseCanonicalVarint(absl::string_view* bytes, uint64_t* value) {
  if (bytes->empty() || static_cast<uint8_t>(bytes->front()) >= 0x80) {
    return internal::ParseLongCanonicalVarint(bytes, value);
  }
  *value = static_cast<uint8_t>(bytes->front());
  bytes->remove_prefix(1);
  return true;
}

// The same for numbers of 32 bits. False also for larger ones.
inline bool ParseCanonicalVarint(absl::string_view* bytes, uint32_t* value) {
  if (!bytes->empty() && static_cast<uint8_t>(bytes->front()) < 0x80) {  // a table has three for each entry
    *value = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    return true;
  }
  absl::string_view rest = *bytes;
  uint64_t wide = 0;
  if (!ParseCanonicalVarint(&rest, &wide) || wide > UINT32_MAX) return false;
  *bytes = rest;
  *value = static_cast<uint32_t>(wide);
  return true;
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_VARINT_H_
