// A distributed checkpoint whose ranks wrote files of safetensors, each with its parts of the tensors: joined to whole
// tensors.
//
//   CASK_ASSIGN_OR_RETURN(auto archive, OpenJoinedShards("/run/7", names, options));   // names of the files
//
// Each file says in its metadata where its parts begin (serialize/safetensors/sharding_info.h). No file has the shapes:
// that of a tensor reaches to the furthest part. A tensor whose parts leave a hole, overlap, or differ in dtype is
// listed, and cannot be read; the others can. The metadata is that of all files, without what differs.
//
// The names say how many files each shard has. If no shard has the file of one number, a note says so, and VerifyAll
// reports damage.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_JOINED_SHARDS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_JOINED_SHARDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::archive {

// True for the names that PyTorch gives such files: "shard-00001-model-00001-of-00001.safetensors".
bool IsShardName(absl::string_view name);

// Errors: those of opening a file of safetensors; DataLoss if a file does not say where its parts begin.
absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenJoinedShards(const std::string& folder,
                                                                const std::vector<std::string>& names,
                                                                const ArchiveReaderOptions& options);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_JOINED_SHARDS_H_
