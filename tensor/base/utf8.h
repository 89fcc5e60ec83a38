// Whether bytes are UTF-8, as proto3's `string` fields must be.
//
//   if (!internal::IsUtf8(name)) return absl::InvalidArgumentError("the name is not UTF-8");

#ifndef TENSORCASK_TENSOR_BASE_UTF8_H_
#define TENSORCASK_TENSOR_BASE_UTF8_H_

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

// True for well-formed UTF-8: shortest forms, no surrogates, at most U+10FFFF (RFC 3629).
bool IsUtf8(absl::string_view text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_UTF8_H_
