// The values in a checkpoint's index: BundleHeaderProto and BundleEntryProto to structs and back (FORMAT.md section 4).
//
// By hand on WireReader rather than through protobuf's classes: an index may hold millions of entries, and nothing of
// them may be passed over in silence. Refused with DataLoss, without the name of the file: a known field of a wrong
// wire type, a number outside its field's type, and everything that cannot be true of a tensor. Unknown fields are
// passed over.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"

namespace tensorcask::checkpoint {

// We read what consumer 2 reads; TensorFlow is consumer 1. Guarded and encoded entries ask for 2.
inline constexpr int kConsumerVersion = 2;

struct IndexHeader {
  int num_shards = 0;  // 1 to kMaxShards
};

// Errors: DataLoss; Unimplemented if its versions exclude us and for big-endian files.
absl::StatusOr<IndexHeader> DecodeHeader(absl::string_view value);
// producer 1, little-endian.
std::string EncodeHeader(const IndexHeader& header);

struct IndexEntry {
  CheckpointEntry entry;  // without its name
  int64_t dtype_number = 0;
  bool is_slice_list = false;    // its offset and size mean nothing
  bool has_plain_bytes = false;  // what is stored are the elements of entry.dtype as FORMAT.md section 5 has them
};

// Checks all that the index alone can tell: the shard is one of `num_shards`, the range does not wrap, and plain
// elements fill it. `name` is the key, which tells the pieces of sliced tensors from tensors. *out keeps nothing of
// before.
absl::Status DecodeEntry(absl::string_view name, absl::string_view value, int num_shards, IndexEntry* out);

// Byte for byte as protobuf's C++ encoder writes it. Requires: entry.form is kPlain.
std::string EncodeEntry(const CheckpointEntry& entry);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_CODEC_H_
