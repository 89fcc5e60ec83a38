// The values in a checkpoint's index: BundleHeaderProto and BundleEntryProto to structs (FORMAT.md section 4).
// entry_encoder.h is the way back.
//
// By hand on WireReader rather than through protobuf's classes: an index may hold millions of entries, and nothing of
// them may be passed over in silence. Refused with DataLoss, without the name of the file: a known field of a wrong
// wire type, a number outside its field's type, and everything that cannot be true of a tensor. Unknown fields are
// passed over.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::checkpoint {

// We read what consumer 2 reads; TensorFlow is consumer 1. Guarded and encoded entries ask for 2.
inline constexpr int kConsumerVersion = 2;

struct IndexHeader {
  int num_shards = 0;       // 1 to kMaxShards
  bool big_endian = false;  // the numbers in the data files; those in the index never are
};

// Errors: DataLoss; Unimplemented if its versions exclude us.
absl::StatusOr<IndexHeader> DecodeHeader(absl::string_view value);

// Numbers of the fields of BundleEntryProto, beside wire_rules.h's kExtensionNumber.
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
  CheckpointEntry entry;  // without its name; of form kSliced: place and size mean nothing
  int64_t dtype_number = 0;
  // Of form kGuarded: where each element stands in what is stored. The elements of a plain entry are row-major.
  std::optional<Layout> layout;
  absl::Status readable;  // Unimplemented for a payload of a later version, which is only listed
  std::string extension;  // a serialized TensorExtension, well formed; DecodeMetadata says what it means
};

// Checks all that the index alone can tell: the shard is one of `num_shards`, the range does not wrap, elements of
// fixed size fill it, the head of a payload agrees with it, slices lie in the shape. The metadata is looked at only to
// tell whether there is any. *out keeps nothing of before.
absl::Status DecodeEntry(absl::string_view value, int num_shards, IndexEntry* out);

// Errors: DataLoss, also past max_name_bytes.
absl::StatusOr<TensorMetadata> DecodeMetadata(const IndexEntry& index, const DecodeLimits& limits);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_
