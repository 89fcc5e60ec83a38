// What a caller may choose when tensors become messages and back.

#ifndef TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
#define TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_

#include <cstddef>

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_map.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// The two ways in which a TensorProto holds elements (FORMAT.md section 2): as bytes in tensor_content, or as numbers
// in the repeated field of the dtype.
enum class Representation { kContent, kValues };

// The order in which the elements of a view are written.
enum class StoredLayout {
  kRowMajor,  // whatever the strides: TensorFlow reads the message (but for dtypes that it lacks)
  // As they lie in memory, with the strides, which come back on reading; axes keep their order, flips included, and
  // gaps between elements are left out. What is not row-major then takes the guarded form, which TensorFlow refuses.
  // Strings are written row-major.
  kPreserve,
};

struct EncodeOptions {
  Representation representation = Representation::kContent;  // of the plain form; the guarded form is content always
  bool checksum = false;  // adds the crc32c of the elements, in a field that TensorFlow skips
  StoredLayout layout = StoredLayout::kRowMajor;

  // Above kStored: the encoded form, compressed and checked chunk by chunk, if that saves 2 %; else the message is as
  // without. TensorFlow refuses it. Its elements are row-major: a view whose order is to be kept, and is another, takes
  // the guarded form all the same, and so is not compressed. Resources and variants are not either, nor are tensors in
  // variants.
  PayloadLevel level = PayloadLevel::kStored;
  // Of the encoded form: as in PayloadOptions. A reader of a message with a base needs that base (DecodeOptions::base).
  size_t chunk_bytes = size_t{1} << 20;
  int num_threads = 1;
  const TensorView* base = nullptr;
};

struct DecodeOptions {
  DecodeLimits limits;
  // Also takes what TensorFlow takes with a warning or silently: a shape that says unknown_rank, more values than
  // elements (the first count; content of a tensor without elements does not), values too large for the dtype (the low
  // bits count) or in another dtype's field (they count as absent), an odd number of floats for complex numbers (the
  // last is dropped).
  bool lenient = false;
  RefPtr<Allocator> allocator = CpuAllocator::Default();
  // What a recorded device becomes, in the forms that give metadata; the others leave it unread. Elements are read to
  // the host.
  DeviceMap device_map;
  // Of the encoded form: what a delta is to (EncodeOptions::base), and threads that decode. Other messages need none.
  const TensorView* base = nullptr;
  int num_threads = 1;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
