// String tensors in a data file: lengths, a checksum of the lengths, characters (FORMAT.md section 5.2).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STRING_CODEC_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STRING_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"

namespace tensorcask::checkpoint {

enum class ByteOrder { kLittle, kBig };

// Appends `values` and sets *crc to the checksum of the entry, unmasked. Memory does not grow with the values.
// Errors: those of the sink.
absl::Status AppendStrings(absl::Span<const std::string> values, ByteSink* sink, uint32_t* crc);

// Views of stored strings. ParseStrings has checked their lengths.
struct StoredStrings {
  absl::string_view lengths;     // a varint each
  absl::string_view characters;  // those of all strings, one after the other
  uint64_t count = 0;
  uint32_t crc = 0;  // that of the entry, unmasked
};

// Finds `count` strings that fill `stored`, allocating nothing.
// Errors: DataLoss if lengths are cut short, do not add up to the bytes that follow them, or (with `verify`) have a
// wrong checksum. The caller compares the checksum of the entry, which is 0 without `verify`. `order` is the byte order
// of the stored checksum, and of the lengths as the checksum counts them.
absl::StatusOr<StoredStrings> ParseStrings(absl::string_view stored, uint64_t count, bool verify,
                                           ByteOrder order = ByteOrder::kLittle);

// Sets out[0] to out[strings.count - 1].
void CopyStrings(const StoredStrings& strings, std::string* out);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_STRING_CODEC_H_
