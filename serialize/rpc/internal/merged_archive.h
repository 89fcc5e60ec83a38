// The tensors of several archives as those of one, with a prefix before the names of each, and before the keys of its
// metadata. Values are metadata of text (beside_tensors.h). If two archives have different values of a key, a note
// names the one that is left out.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_MERGED_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_MERGED_ARCHIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/rpc/tensor_source.h"

namespace tensorcask::rpc {

// Tensors that cannot be read are left out. Errors: AlreadyExists if two tensors have one name.
absl::StatusOr<std::unique_ptr<ArchiveReader>> MergeArchives(std::vector<PrefixedArchive> archives);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_MERGED_ARCHIVE_H_
