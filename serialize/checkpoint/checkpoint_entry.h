// What a checkpoint's index says of one tensor.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

// How the elements are stored. Only plain ones can be read by this version; the others are listed, and reading one
// answers Unimplemented.
enum class EntryForm : uint8_t {
  kPlain,    // row-major, one of TensorFlow's dtypes
  kSliced,   // in pieces, each under a key of its own
  kGuarded,  // not row-major, or a dtype that TensorFlow lacks
  kEncoded,  // compressed
  kUnknown,  // a dtype number that this version does not know
};

absl::string_view EntryFormName(EntryForm form);  // "plain", "sliced", ...

struct CheckpointEntry {
  std::string name;  // any bytes
  DType dtype = DType::kInvalid;
  TensorShape shape;
  EntryForm form = EntryForm::kPlain;
  int32_t shard = 0;          // which data file
  uint64_t offset = 0;        // there, bytes
  uint64_t stored_bytes = 0;  // there
  uint32_t masked_crc32c = 0;
  bool has_metadata = false;  // the entry says more, which this version does not read: a device, attributes
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
