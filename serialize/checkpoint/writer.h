// Writes checkpoints in the form of TensorFlow (tensor bundles), whole or not at all.
//
//   CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("/models/step-100", {}));
//   CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a checkpoint
//
// Elements go to the data file as they are added, so memory stays bounded: only names and offsets are kept. The same
// tensors in the same order with the same options give the same bytes; with alignment = 1 those that TensorFlow wrote
// (tried on 17 of its checkpoints).
//
// Files are written under temporary names beside the final ones and published in order, data first, index last
// (serialize/io/atomic_publish.h). Before Finish there is no new index under the final name, and after it only if all
// of the checkpoint is there; a writer destroyed without Finish removes what it wrote. After a failed Add or Finish
// every further call gives the same error. One caller at a time, and one writer at a time where `overwrite` is set: two
// that overwrite the same checkpoint can mix their files, which the checksums then tell.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct CheckpointWriterOptions {
  FileSystem* file_system = nullptr;  // null: FileSystem::Posix()
  int num_shards = 1;                 // data files; 1 to 99999
  // Each tensor starts at a multiple of this many bytes, so that it can be mapped (Map). 1 is TensorFlow's own choice.
  // At most 2^30.
  uint64_t alignment = 64;
  bool sync = true;  // durable when Finish returns
  // Replace a checkpoint of this name; a crash meanwhile leaves the old one, the new one or none. Data files of an old
  // one that had another number of shards are removed at the end, best effort. Data files without an index, as a killed
  // save may leave them, are refused like a checkpoint unless this is set.
  bool overwrite = false;
  // Bytes of a block of the index; 0: 256 KiB with alignment 1, which are TensorFlow's bytes, else 16 KiB, which makes
  // looking up one tensor of many cheap.
  size_t index_block_bytes = 0;
};

struct AddOptions {
  int shard = 0;  // which data file
};

class CheckpointWriter {
 public:
  // Errors: AlreadyExists if there is such a checkpoint (unless overwriting); InvalidArgument for a bad prefix or
  // option; from errno, naming the file.
  static absl::StatusOr<CheckpointWriter> Create(const std::string& prefix,
                                                 const CheckpointWriterOptions& options = {});

  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // The elements of `tensor` in row-major order: a view of other strides is gathered piece by piece, so that memory
  // stays bounded (strings: copied whole). Errors: InvalidArgument for an empty name, one that starts with a NUL byte,
  // one over 64 KiB or a shard outside; AlreadyExists for a name added before; Unimplemented for dtypes that TensorFlow
  // lacks; FailedPrecondition for a buffer without data; ResourceExhausted; from errno, naming the file.
  absl::Status Add(absl::string_view name, const TensorView& tensor, const AddOptions& options = {});

  // Writes the index and publishes. Errors: FailedPrecondition if called twice; from errno, naming the file.
  absl::Status Finish();

 private:
  class Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_
