// Elements to tensor_content and back: the bytes of fixed-size dtypes, the list form of strings, and the checksum of
// either (FORMAT.md sections 2.1 and 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_
#define TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {

// Bits of an element that count in its byte of tensor_content: 4 or 2 for int4, uint4, int2, uint2, else 8. TensorFlow
// writes the others as zeros and ignores them when it reads (ml_dtypes, intn.h).
int ContentBits(DType dtype);

// Copies elements of a fixed-size dtype between memory and tensor_content. Both directions take the low bits where
// ContentBits is less than 8; memory has the sign extended to the whole byte, content has zeros.
void ContentFromElements(DType dtype, const char* elements, size_t bytes, char* content);
void ElementsFromContent(DType dtype, const char* content, size_t bytes, char* elements);

// The crc32c of a tensor: of fixed-size elements as they stand in memory (low bits, sign extended); of strings in list
// form.
uint32_t TensorCrc32c(const Tensor& tensor);

// What stands in TensorExtension.crc32c for elements with this checksum: masked; 1 for 0, which means "not given".
uint32_t StoredCrc32c(uint32_t crc);

// Bytes of the list form: a length as varint for each, then the characters.
uint64_t StringListBytes(absl::Span<const std::string> strings);
// Writes it; returns the end.
char* WriteStringList(absl::Span<const std::string> strings, char* out);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_CONTENT_BYTES_H_
