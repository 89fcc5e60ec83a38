// What a checkpoint's index says of one tensor.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// How the elements are stored. The last two are only listed; reading one answers Unimplemented.
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
  int32_t shard = 0;                // which data file; of a sliced tensor, that of its first piece
  uint64_t offset = 0;              // there, bytes; likewise
  uint64_t stored_bytes = 0;        // in all data files
  uint32_t masked_crc32c = 0;       // of what is stored; 0 for a sliced tensor, whose pieces have one each
  bool has_metadata = false;        // the entry says more (CheckpointReader::Metadata): a name, a device, attributes
  std::vector<int64_t> strides;     // of a guarded tensor, elements: as it is stored; else empty, row-major
  std::vector<TensorSlice> slices;  // of a sliced tensor: its pieces, in the order of the index
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_ENTRY_H_
