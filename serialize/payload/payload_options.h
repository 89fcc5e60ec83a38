// How tensors are compressed: the options that every writer of encoded payloads embeds as its member `payload`.
//
//   CheckpointWriterOptions options;                       // also EncodeOptions and PayloadWriteOptions
//   options.payload.level = PayloadLevel::kDefault;
//   options.payload.base = previous_step;                  // store deltas where that is smaller (base_lookup.h)

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_OPTIONS_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_OPTIONS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/codec/payload_level.h"

namespace tensorcask {

struct PayloadOptions {
  PayloadLevel level = PayloadLevel::kStored;
  // Decoded bytes of a chunk: a power of two from 64 KiB to 4 MiB. Small chunks suit readers of many small slices.
  size_t chunk_bytes = size_t{1} << 20;
  // Above kStored, a tensor is stored as a delta to the tensor of the same name in the base, if that is smaller. Null,
  // or level kStored: no deltas. A reader needs the same base. Strings and bools are never deltas. A base tensor that
  // is a delta itself, that has another dtype or number of elements or that cannot be read is not used. (If the base is
  // a tensor in memory, that is an error.)
  std::shared_ptr<const BaseLookup> base = nullptr;

  // Errors: InvalidArgument for an unknown level or a wrong chunk size.
  absl::Status Validate() const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_OPTIONS_H_
