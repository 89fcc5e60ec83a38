// What a caller may choose when tensors become messages and back.

#ifndef TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
#define TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

// The two ways in which a TensorProto holds elements (FORMAT.md section 2): as bytes in tensor_content, or as numbers
// in the repeated field of the dtype.
enum class Representation { kContent, kValues };

struct EncodeOptions {
  Representation representation = Representation::kContent;
  bool checksum = false;  // adds the crc32c of the elements, in a field that TensorFlow skips
};

struct DecodeOptions {
  DecodeLimits limits;
  // Also takes what TensorFlow takes with a warning or silently: a shape that says unknown_rank, more values than
  // elements (the first count; content of a tensor without elements does not), values too large for the dtype (the low
  // bits count) or in another dtype's field (they count as absent), an odd number of floats for complex numbers (the
  // last is dropped).
  bool lenient = false;
  RefPtr<Allocator> allocator = CpuAllocator::Default();
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
