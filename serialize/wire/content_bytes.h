// The list form of strings in tensor_content, and the checksum of a tensor (FORMAT.md sections 2.1 and 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_
#define TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::internal {

// The crc32c of a tensor: of fixed-size elements as they stand in memory; of strings in list form. Requires: a
// contiguous view.
uint32_t TensorCrc32c(const TensorView& tensor);

// What stands in TensorExtension.crc32c for elements with this checksum: masked; 1 for 0, which means "not given".
uint32_t StoredCrc32c(uint32_t crc);

// Bytes of the list form: a length as varint for each, then the characters.
uint64_t StringListBytes(absl::Span<const std::string> strings);
// Writes it; returns the end.
char* WriteStringList(absl::Span<const std::string> strings, char* out);

// Fills *content with what tensor_content holds of these elements, of which `bytes` is the size: row-major, strings in
// list form. Errors: as CopyRowMajor. Requires: strings are contiguous.
absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_
