// The values in a checkpoint's index as bytes: what entry_codec.h reads (FORMAT.md section 4). Byte for byte as
// protobuf's C++ encoder writes the messages of proto/checkpoint.proto.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_ENCODER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_ENCODER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/wire/extension_writer.h"

namespace tensorcask::checkpoint {

// producer 1, little-endian. `for_us` if an entry is guarded or encoded: min_consumer 2 then keeps TensorFlow out.
std::string EncodeHeader(int num_shards, bool for_us);

// Of `entry` everything but name, form and payload. With slices it is that of a whole sliced tensor: TensorFlow writes
// no place, size and checksum then. The dtype stands in the extension if that says so, and only there. An extension
// that says nothing is not written. `payload_head` is that of an encoded entry, or empty. Requires: extension.metadata
// is not null, extension.checksum is not set, extension.payload_bytes is payload_head.size().
std::string EncodeEntry(const CheckpointEntry& entry, const internal::ExtensionContent& extension,
                        absl::string_view payload_head = "");
// The same without an extension.
std::string EncodeEntry(const CheckpointEntry& entry);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_ENTRY_ENCODER_H_
