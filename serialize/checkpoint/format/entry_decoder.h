// The values in a checkpoint's index: BundleHeaderProto and BundleEntryProto to structs (FORMAT.md section 4).
// entry_encoder.h is the way back.
//
// The decoder reads the wire format (serialize/protowire) instead of protobuf's classes: an index may hold millions of
// entries, and protobuf would skip known fields of a wrong wire type. Unknown fields are skipped. Errors do not name
// the file. They are DataLoss for bytes that are not the message (CheckMessage), for a number that does not fit its
// field and for an impossible tensor; ResourceExhausted past a limit.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_DECODER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::checkpoint {

// The version of this reader. TensorFlow is version 1. Extension-only and encoded entries require 2.
inline constexpr int kConsumerVersion = 2;

struct IndexHeader {
  int num_shards = 0;       // 1 to kMaxShards
  bool big_endian = false;  // the numbers in the data files; those in the index never are
  // The last component of the prefix of the deltas' base, which lay in the same folder; "" if unknown.
  std::string base;
};

// Errors: also Unimplemented if its versions exclude this reader.
absl::StatusOr<IndexHeader> DecodeHeader(absl::string_view value, const DecodeLimits& limits);

// Numbers of the fields of BundleEntryProto, beside kExtensionNumber (tensor_rules.h).
struct EntryField {
  static constexpr uint32_t kDType = 1;
  static constexpr uint32_t kShape = 2;
  static constexpr uint32_t kShardId = 3;
  static constexpr uint32_t kOffset = 4;
  static constexpr uint32_t kSize = 5;
  static constexpr uint32_t kCrc32c = 6;
  static constexpr uint32_t kSlices = 7;
};

struct IndexEntry {
  CheckpointEntry entry;  // without its name; of form kSliced also without shard, offset and size
  int64_t dtype_number = 0;
  // For the form kExtensionOnly: the layout of the stored elements. The elements of a plain entry are row-major.
  std::optional<Layout> layout;
  absl::Status readable;  // Unimplemented for a payload of a later version: the reader lists it and cannot read it
  std::string extension;  // a serialized TensorExtension that CheckMessage has passed; DecodeMetadata decodes it
};

// Overwrites *out. Checks everything that needs only the index: the shard is one of `num_shards`, offset plus size does
// not overflow, elements of fixed size fill the range, the header of a payload agrees with the entry, slices lie in the
// shape. Does not decode the metadata; finds only whether there is any.
absl::Status DecodeEntry(absl::string_view value, int num_shards, const DecodeLimits& limits, IndexEntry* out);

// An upper bound of the memory that DecodeEntry uses for a large `value`, copies included. A caller charges a quota
// with it first. 0 for a value of a few hundred bytes.
uint64_t LargeEntryBytes(absl::string_view value);

// Errors: also ResourceExhausted for a name past max_name_bytes.
absl::StatusOr<TensorMetadata> DecodeMetadata(const IndexEntry& index, const DecodeLimits& limits);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_DECODER_H_
