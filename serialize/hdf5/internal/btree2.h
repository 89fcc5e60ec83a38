// B-trees of version 2: of the links or the attributes of an object that has many.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE2_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE2_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/file.h"

namespace tensorcask::hdf5 {

enum class RecordKind {
  kHugeObject = 1,     // address, length and number of an object of a heap
  kLinkName = 5,       // hash (4 bytes) and the place of the link in the heap
  kAttributeName = 8,  // the place of the attribute in the heap, flags (1), number (4), hash (4)
};

// Calls fn(record) for each record of the tree whose header is at `header`, in the order of the nodes. Errors: those of
// `fn`; DataLoss if the tree breaks a rule, or has a node twice.
absl::Status ForEachRecord(uint64_t header, RecordKind kind, File* file,
                           absl::FunctionRef<absl::Status(absl::string_view record)> fn);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE2_H_
