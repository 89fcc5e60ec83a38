// The entry of one tensor in a checkpoint's index.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_CHECKPOINT_ENTRY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_CHECKPOINT_ENTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// How the elements are stored. A reader lists a tensor of unknown form; reading its elements answers Unimplemented.
enum class EntryForm : uint8_t {
  kPlain,          // row-major, one of TensorFlow's dtypes
  kSliced,         // in pieces, each with an entry of its own
  kExtensionOnly,  // not row-major, or a dtype that TensorFlow lacks
  kEncoded,        // compressed, perhaps as a delta to a base (serialize/payload)
  kUnknown,        // a dtype number that this version does not know
};

absl::string_view EntryFormName(EntryForm form);  // "plain", "sliced", ...

struct CheckpointEntry {
  std::string name;  // any bytes
  DType dtype = DType::kInvalid;
  TensorShape shape;
  EntryForm form = EntryForm::kPlain;
  int32_t shard = 0;           // the data file; of a sliced tensor, that of its first piece
  uint64_t offset = 0;         // in that file, bytes
  uint64_t stored_bytes = 0;   // for a sliced tensor: those of all its pieces
  uint32_t masked_crc32c = 0;  // that of the stored bytes; 0 for a sliced tensor, whose pieces have one each
  bool has_metadata = false;   // CheckpointReader::Metadata has a name, a device or attributes
  // For an encoded tensor: its level, whether it is a delta, the number of characters of its strings. Null for all
  // other tensors, and for a payload of a later version.
  std::shared_ptr<const PayloadHeader> payload;
  std::vector<int64_t> strides;     // for an extension-only tensor: as it is stored, in elements; empty: row-major
  std::vector<TensorSlice> slices;  // for a sliced tensor: its pieces, in the order of the index

  // The bytes that strings and variants take beside their objects, as far as the index tells.
  uint64_t content_bytes() const { return payload != nullptr ? payload->characters : stored_bytes; }
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_CHECKPOINT_ENTRY_H_
