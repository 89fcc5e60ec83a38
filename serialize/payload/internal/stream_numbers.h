// The numbers of the streams of a payload (FORMAT.md section 1): elements, or lengths and characters of strings.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_STREAM_NUMBERS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_STREAM_NUMBERS_H_

#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::payload {

// Requires: PayloadHeader::Supports(dtype); `stream` is 0 or, of strings, 1.
inline NumberType StreamNumbers(DType dtype, int stream) {
  if (dtype != DType::kString) return NumbersOf(dtype);
  return stream == 0 ? kStringLengths : kCharacters;
}

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_STREAM_NUMBERS_H_
