// V1 checkpoints, as TensorFlow wrote them before tensor bundles: one table file, whose values are the tensors
// (FORMAT.md section 11).
//
// A checkpoint that was saved as a set NAME-SSSSS-of-NNNNN is opened one file at a time, and has the tensors of that
// file. A tensor of which another file has pieces is listed; of it ReadSlice reads what is in this one, and Read
// answers DataLoss.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/read/reader_impl.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::checkpoint {

// Reads the list of tensors. The checksums of the file are those of its blocks, and verified whenever one is read,
// whatever the options say. Memory holds one block at a time beside the tensors that are read: tensors are best read in
// the order of entries(). Map copies. entries() and VerifyAll read the whole file.
// Errors: DataLoss for a file that is no V1 checkpoint or is damaged; Unimplemented for one that says it wants a newer
// reader; ResourceExhausted past a limit.
absl::StatusOr<std::unique_ptr<ReaderImpl>> OpenV1Checkpoint(std::shared_ptr<const ByteSource> file,
                                                             const CheckpointReaderOptions& options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_
