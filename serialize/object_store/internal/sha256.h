// SHA-256 (FIPS 180-4), of which the signature of a request is made.
//
//   Sha256Hex("abc")   // "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_SHA256_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// 64 hexadecimal digits, in lower case.
std::string Sha256Hex(absl::string_view bytes);

// The 32 bytes of HMAC-SHA256 (RFC 2104).
std::string HmacSha256(absl::string_view key, absl::string_view text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_SHA256_H_
