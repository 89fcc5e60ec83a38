// String tensors as they stand in a data file: lengths, a checksum of the lengths, characters (FORMAT.md section 5.2).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_STRING_CODEC_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_STRING_CODEC_H_

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
// Errors: of the sink.
absl::Status AppendStrings(absl::Span<const std::string> values, ByteSink* sink, uint32_t* crc);

// Views of stored strings whose lengths were found to be true.
struct StoredStrings {
  absl::string_view lengths;     // a varint each
  absl::string_view characters;  // of all strings, one after the other
  uint64_t count = 0;
  uint32_t crc = 0;  // of the entry, unmasked
};

// Finds `count` strings that fill `stored`, allocating nothing.
// Errors: DataLoss if lengths are cut short, they do not add up to the bytes that follow them, or (with `verify`) their
// checksum is wrong. The checksum of the entry is the caller's to compare; it is 0 without `verify`. In a file of a
// big-endian machine the checksum of the lengths stands in that order, and so do the lengths that it is made of.
absl::StatusOr<StoredStrings> ParseStrings(absl::string_view stored, uint64_t count, bool verify,
                                           ByteOrder order = ByteOrder::kLittle);

// Sets out[0] to out[strings.count - 1].
void CopyStrings(const StoredStrings& strings, std::string* out);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_STRING_CODEC_H_
