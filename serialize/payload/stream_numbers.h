// What the streams of a payload are made of (FORMAT.md section 1): elements; of strings, lengths and characters.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_STREAM_NUMBERS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_STREAM_NUMBERS_H_

#include "tensorcask/serialize/payload/chunk_codec.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::payload {

// Requires: PayloadHead::Supports(dtype); `stream` is 0 or, of strings, 1.
inline NumberType StreamNumbers(DType dtype, int stream) {
  if (dtype != DType::kString) return NumbersOf(dtype);
  return stream == 0 ? kStringLengths : kCharacters;
}

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_STREAM_NUMBERS_H_
