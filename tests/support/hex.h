// Bytes written as hexadecimal digits. Abseil's HexStringToBytes() changed its signature in 2024.

#ifndef TENSORCASK_TESTS_SUPPORT_HEX_H_
#define TENSORCASK_TESTS_SUPPORT_HEX_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::testing {

// BytesOfHex("0aFF") == "\x0a\xff". The value is unspecified if a character is not a hexadecimal digit; an odd last
// digit is ignored.
inline std::string BytesOfHex(absl::string_view hex) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>((value(hex[i]) << 4 | value(hex[i + 1])) & 0xff);
  }
  return bytes;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_HEX_H_
