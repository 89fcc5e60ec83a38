// What a caller may choose when tensors become messages and back.
//
//   EncodeOptions options;
//   options.checksum = true;
//   CASK_RETURN_IF_ERROR(EncodeTensor(view, options, &proto));   // tensor_codec.h

#ifndef TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
#define TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device_map.h"

namespace tensorcask {

// The two ways in which a TensorProto holds elements (FORMAT.md section 2): as bytes in tensor_content, or as numbers
// in the repeated field of the dtype.
enum class Representation { kContent, kValues };

// The order in which the elements of a view are written.
enum class StoredLayout {
  kRowMajor,  // for any strides; TensorFlow reads the message, unless it lacks the dtype
  // In the order in memory, together with the strides, which a reader restores. Axes keep their order and direction;
  // gaps between elements are left out. A tensor that is not row-major takes the extension-only form, which TensorFlow
  // refuses. Strings are always row-major.
  kPreserve,
};

struct EncodeOptions {
  Representation representation = Representation::kContent;  // for the plain form; the other forms are always content
  bool checksum = false;  // adds the crc32c of the elements, in a field that TensorFlow skips
  StoredLayout layout = StoredLayout::kRowMajor;

  // A payload.level above kStored asks for the encoded form: compressed and checked chunk by chunk. The encoder uses it
  // if it saves at least 2 %. TensorFlow refuses it. Its elements are row-major: a view that keeps another order
  // (kPreserve) takes the extension-only form instead, uncompressed. Resources and variants are not compressed, nor are
  // tensors in variants. The encoder looks up the base by the name in the metadata of the tensor.
  PayloadOptions payload = {};
  int num_threads = 1;  // at most this many encode chunks; the bytes do not depend on it
};

struct DecodeOptions {
  DecodeLimits limits;
  // Also accepts what TensorFlow accepts silently or with a warning: a shape that says unknown_rank, more values than
  // elements (the first ones are used; content of a tensor without elements is ignored), values too large for the dtype
  // (the low bits are used) or in the field of another dtype (they are treated as absent), an odd number of floats for
  // complex numbers (the last is dropped).
  bool lenient = false;
  // In the forms that give metadata. After kSkip, DecodedTensor::metadata_status says what is wrong with the first
  // field that was left out.
  UnreadableMetadata unreadable_metadata = UnreadableMetadata::kRefuse;
  // Allocates the elements. With an allocator of a device, elements of fixed size are decoded on the host and copied to
  // the device; objects stay on the host.
  RefPtr<Allocator> allocator = CpuAllocator::Default();
  // What a recorded device becomes, in the forms that give metadata; the others leave it unread. It does not choose the
  // memory: `allocator` does.
  DeviceMap device_map;
  // The base that a delta was made from (EncodeOptions::payload), asked for the name that the message has. Other
  // messages do not need it.
  std::shared_ptr<const BaseLookup> base = nullptr;
  int num_threads = 1;  // at most this many decode the chunks of the encoded form
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_CODEC_OPTIONS_H_
