// Variant tensors in a data file: for each element a length, a message and a checksum (FORMAT.md section 5.3).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STORED_VARIANTS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STORED_VARIANTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::checkpoint {

// Appends `values` and sets *crc to the checksum of the entry, unmasked. Uses memory for the longest message.
// Errors: those of the sink. Before the first byte is written: InvalidArgument, naming the element, for a variant that
// no message holds (a type name that is not UTF-8, variants nested too deep, 2 GiB or more); FailedPrecondition for a
// tensor without data.
absl::Status AppendVariants(absl::Span<const Variant> values, ByteSink* sink, uint32_t* crc);

// Views of stored variants. ParseVariants has checked their lengths, and their checksums if it was told to.
struct StoredVariants {
  absl::string_view elements;  // length, message and checksum of each
  uint64_t count = 0;
  uint32_t crc = 0;  // that of the entry, unmasked
};

// Finds `count` variants that fill `stored`. Allocates nothing and does not parse the messages.
// Errors: DataLoss, naming the element, if an element is cut short, bytes are left over, or (with `verify`) a checksum
// is wrong. The caller compares the checksum of the entry, which is 0 without `verify`.
absl::StatusOr<StoredVariants> ParseVariants(absl::string_view stored, uint64_t count, bool verify);

// Sets out[0] to out[variants.count - 1]. The limits on a message hold for all elements together. Charges *decoded with
// the contents of the elements. Checks everything but the checksums of nested tensors before it allocates.
// Errors, naming the element: DataLoss for bytes that are not a message or whose fields disagree; ResourceExhausted
// past a limit. Elements of *out are then unspecified.
absl::Status DecodeVariants(const StoredVariants& variants, const DecodeOptions& options, DecodeQuota* decoded,
                            Variant* out);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STORED_VARIANTS_H_
