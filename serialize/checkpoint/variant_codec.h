// Variant tensors as they stand in a data file: for each element a length, a message and a checksum (FORMAT.md section
// 5.3).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_VARIANT_CODEC_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_VARIANT_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/decoded_bytes.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::checkpoint {

// Appends `values` and sets *crc to the checksum of the entry, unmasked. Memory is that of the longest message.
// Errors: of the sink; before a byte is written: InvalidArgument, naming the element, for what no message holds (a type
// name that is not UTF-8, variants nested too deep, 2 GiB or more), FailedPrecondition for a tensor without data.
absl::Status AppendVariants(absl::Span<const Variant> values, ByteSink* sink, uint32_t* crc);

// Views of stored variants whose lengths and checksums were found to be true.
struct StoredVariants {
  absl::string_view elements;  // length, message and checksum of each
  uint64_t count = 0;
  uint32_t crc = 0;  // of the entry, unmasked
};

// Finds `count` variants that fill `stored`, allocating nothing; the messages are not looked at.
// Errors: DataLoss, naming the element, if one is cut short or bytes are left over, or (with `verify`) its checksum is
// wrong. The checksum of the entry is the caller's to compare; it is 0 without `verify`.
absl::StatusOr<StoredVariants> ParseVariants(absl::string_view stored, uint64_t count, bool verify);

// Sets out[0] to out[variants.count - 1]. The limits on a message hold for all elements together, and what is in them
// is taken from *decoded; everything but memory and the checksums of nested tensors is looked at before anything is
// allocated.
// Errors, naming the element: DataLoss for messages that are none or whose fields disagree; ResourceExhausted past a
// limit. Elements of *out are then unspecified.
absl::Status DecodeVariants(const StoredVariants& variants, const DecodeOptions& options, DecodedBytes* decoded,
                            Variant* out);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_VARIANT_CODEC_H_
