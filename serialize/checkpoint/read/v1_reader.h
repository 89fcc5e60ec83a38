// V1 checkpoints, as TensorFlow wrote them before tensor bundles: one table file, whose values are the tensors
// (FORMAT.md section 11).
//
// A checkpoint that was saved as a set NAME-SSSSS-of-NNNNN is opened one file at a time, and has the tensors of that
// file. A tensor with pieces in another file is listed. ReadSlice reads the slices that this file holds; Read returns
// DataLoss.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/read/checkpoint_reader_impl.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::checkpoint {

// Reads the list of tensors. Each block of the file has a checksum, which is verified whenever the block is read,
// whatever the options say. Only one block is in memory at a time, so read tensors in the order of entries(). Map
// copies. entries() and VerifyAll read the whole file.
// Errors: DataLoss if the file is not a V1 checkpoint or is damaged; Unimplemented if it requires a newer reader;
// ResourceExhausted past a limit.
absl::StatusOr<std::unique_ptr<ReaderImpl>> OpenV1Checkpoint(std::shared_ptr<const ByteSource> file,
                                                             const CheckpointReaderOptions& options);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_V1_READER_H_
