// Merges several checkpoints into one, without reading their elements.
//
//   CASK_RETURN_IF_ERROR(MergeCheckpoints({"/tmp/worker-0", "/tmp/worker-1"}, "/models/step-100").status());
//
// Each data file gets a second name in the new checkpoint (a hard link; a copy where the file system has no links), so
// the sources stay as they are unless `remove_sources` is set. The new checkpoint is published like every save: data
// first, index last, durable, whole or not at all. Pieces of one tensor in several sources become one tensor. Sources
// without tensors, and data files without elements, are left out. Entries keep their unknown fields; a tensor in pieces
// keeps those of the first source. The merge checks all indexes and the sizes of all data files, but reads no elements:
// a damaged tensor stays damaged, and a reader of the new checkpoint finds the damage by the checksum. Indexes are
// merged as streams: memory is a block of each, the entry of one tensor, and 24 bytes for each tensor of the largest
// source. An index is open only while it is read, and at most Publication::kMaxLinkedAhead data files are open at a
// time, since a process may not open all of them at once.
//
// Source: MergeBundles of tensorflow/core/util/tensor_bundle, which renames the data files, and counts shards wrongly
// when a source is empty.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct CheckpointMergeOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool sync = true;            // the new checkpoint is durable when MergeCheckpoints returns
  bool overwrite = false;      // as CheckpointWriterOptions::overwrite; the target may not be a source
  bool allow_missing = false;  // skip sources that do not exist; one must exist
  // After the new checkpoint is published, best effort: the indexes, and the data files that the new checkpoint has. A
  // source of which another program replaced or removed a file meanwhile stays.
  bool remove_sources = false;
  DecodeLimits limits;
};

struct CheckpointMergeReport {
  std::vector<std::string> removed;  // files of the replaced checkpoint, and of sources
  std::vector<std::string> notes;    // sentences on data files that no index counts, or that stay
};

// `sources` are prefixes or paths of indexes, not V1 checkpoints. Makes the folder of `target` if it is missing (its
// parent must exist).
// Errors: NotFound for a missing source; AlreadyExists if two sources hold a tensor of the same name, unless both hold
// pieces of it, and if the target exists; InvalidArgument if pieces of a tensor disagree or overlap, if byte orders
// differ, or if a source is the target; DataLoss for a damaged source (as in CheckpointReader::entries), and for a data
// file that is missing or too short; Aborted for a source that is replaced meanwhile; ResourceExhausted past a limit,
// for example for a tensor in pieces whose entry has more than max_message_bytes; from errno, naming the file. On error
// there is no new checkpoint (a new folder stays), and the sources are unchanged.
absl::StatusOr<CheckpointMergeReport> MergeCheckpoints(absl::Span<const std::string> sources, const std::string& target,
                                                       const CheckpointMergeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_
