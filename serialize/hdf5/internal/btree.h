// B-trees of version 1: of the links of a group, or the chunks of a dataset.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/file.h"

namespace tensorcask::hdf5 {

enum class BTreeKind { kGroup = 0, kChunks = 1 };

// Calls leaf(key, child) for each child of the leaves, in the order of the tree, with the key in front of it, which has
// `key_bytes`. No tree (kUndefined) has no child. Errors: those of `leaf`; DataLoss if the tree breaks a rule, or has a
// node twice.
absl::Status WalkBTree(uint64_t root, BTreeKind kind, uint64_t key_bytes, File* file,
                       absl::FunctionRef<absl::Status(absl::string_view key, uint64_t child)> leaf);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_BTREE_H_
