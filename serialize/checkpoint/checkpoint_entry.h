// What a checkpoint's index says of one tensor.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// How the elements are stored. What is of an unknown form is only listed; reading it answers Unimplemented.
enum class EntryForm : uint8_t {
  kPlain,    // row-major, one of TensorFlow's dtypes
  kSliced,   // in pieces, each under a key of its own
  kGuarded,  // not row-major, or a dtype that TensorFlow lacks
  kEncoded,  // compressed, and perhaps only as differences from a base (serialize/payload)
  kUnknown,  // a dtype number that this version does not know
};

absl::string_view EntryFormName(EntryForm form);  // "plain", "sliced", ...

struct CheckpointEntry {
  std::string name;  // any bytes
  DType dtype = DType::kInvalid;
  TensorShape shape;
  EntryForm form = EntryForm::kPlain;
  int32_t shard = 0;           // which data file; of a sliced tensor, that of its first piece
  uint64_t offset = 0;         // there, bytes; likewise
  uint64_t stored_bytes = 0;   // in all data files
  uint32_t masked_crc32c = 0;  // of what is stored; 0 for a sliced tensor, whose pieces have one each
  bool has_metadata = false;   // the entry says more (CheckpointReader::Metadata): a name, a device, attributes
  // Of an encoded tensor: its level, whether it is a delta, how many characters its strings have; else null, and for a
  // payload of a later version, which is only listed.
  std::shared_ptr<const PayloadHead> payload;
  std::vector<int64_t> strides;     // of a guarded tensor, elements: as it is stored; else empty, row-major
  std::vector<TensorSlice> slices;  // of a sliced tensor: its pieces, in the order of the index

  // As far as can be told without reading them, what strings and variants hold beside their objects, bytes.
  uint64_t content_bytes() const { return payload != nullptr ? payload->characters : stored_bytes; }
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
