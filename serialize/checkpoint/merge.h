// Makes one checkpoint of several, without reading their elements.
//
//   CASK_RETURN_IF_ERROR(MergeCheckpoints({"/tmp/worker-0", "/tmp/worker-1"}, "/models/step-100"));
//
// Each data file gets a second name in the new checkpoint (a hard link; a copy where the file system has no links), so
// that the sources stay as they are unless `remove_sources` says otherwise. Published as every save: data first, index
// last, durable, whole or not at all. Pieces of one tensor in several sources come together; sources without tensors,
// and data files that nothing is stored in, are left out. Entries keep fields that this version does not know (of a
// tensor in pieces, those of the first source). All indexes are checked, and the sizes of all data files, but no
// element is read: a damaged one stays one, and its checksum tells. Takes some 100 bytes of memory a tensor.
//
// Source: MergeBundles of tensorflow/core/util/tensor_bundle, which renames the data files, and counts shards wrongly
// when a source is empty.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct MergeOptions {
  FileSystem* file_system = nullptr;  // null: FileSystem::Posix()
  bool sync = true;                   // durable when it returns
  bool overwrite = false;             // as CheckpointWriterOptions::overwrite; the target may not be a source
  bool allow_missing = false;         // sources that are not there are passed over, but not all of them
  bool remove_sources = false;        // when the new checkpoint stands; best effort
  DecodeLimits limits;
};

// `sources` are prefixes or paths of indexes, not of V1 checkpoints.
// Errors: NotFound for a source that is missing; AlreadyExists for a tensor that is in two sources, not both times in
// pieces, or a checkpoint of the target's name; InvalidArgument if pieces of a tensor disagree or overlap, byte orders
// differ, or a source is the target; DataLoss for a damaged source, as CheckpointReader::entries, and for a data file
// that is missing or too short; ResourceExhausted past a limit, for a tensor in pieces whose entry has
// more than max_message_bytes, say; from errno, naming the file. On error nothing new stands, and all sources do.
absl::Status MergeCheckpoints(absl::Span<const std::string> sources, const std::string& target,
                              const MergeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_MERGE_H_
