// The values in a checkpoint's index as bytes: what entry_decoder.h reads (FORMAT.md section 4). Byte for byte as
// protobuf's C++ encoder writes the messages of proto/checkpoint.proto.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_ENCODER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_ENCODER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"

namespace tensorcask::checkpoint {

// The header of a little-endian checkpoint, with producer 1. `requires_reader_v2`: an entry is extension-only or
// encoded. The header then has min_consumer 2, so that TensorFlow refuses the checkpoint, and Tensorcask's mark beside
// it.
std::string EncodeHeader(int num_shards, bool requires_reader_v2, absl::string_view base = "");

// Encodes all of `entry` but name, form and payload. An entry with slices is that of a whole sliced tensor: like
// TensorFlow, this function then writes no offset, size and checksum. If `extension` has a dtype, the dtype is written
// there only. An extension without content is not written. `payload_header` is that of an encoded entry, or empty.
// Requires: extension.metadata is not null, extension.checksum is not set, and extension.payload_bytes is
// payload_header.size().
std::string EncodeEntry(const CheckpointEntry& entry, const internal::ExtensionContent& extension,
                        absl::string_view payload_header = "");
// The same without an extension.
std::string EncodeEntry(const CheckpointEntry& entry);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_ENTRY_ENCODER_H_
