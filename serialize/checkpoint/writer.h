// Writes checkpoints in the form of TensorFlow (tensor bundles), whole or not at all.
//
//   CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("/models/step-100", {}));
//   CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a checkpoint
//
// Elements go to the data file as they are added, so memory stays bounded: only names and offsets are kept. (In the
// background they wait in memory: FinishInBackground.) The same tensors in the same order with the same options give
// the same bytes; with alignment = 1 those that TensorFlow wrote (tried on 17 of its checkpoints).
//
// Files are written under temporary names beside the final ones and published in order, data first, index last
// (serialize/io/atomic_publish.h). Before Finish there is no new index under the final name, and after it only if all
// of the checkpoint is there; a writer destroyed without Finish removes what it wrote. After a failed Add or Finish
// every further call gives the same error. One caller at a time, and one writer at a time where `overwrite` is set: two
// that overwrite the same checkpoint can mix their files, which the checksums then tell.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/background_save.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

class CheckpointReader;  // reader.h

struct LevelRule {
  std::string glob;  // a shell pattern (tensor/base/glob.h): * also matches '/'
  PayloadLevel level = PayloadLevel::kStored;
};

struct CheckpointWriterOptions {
  FileSystem* file_system = nullptr;  // null: FileSystem::Posix()
  int num_shards = 1;                 // data files; 1 to 99999
  // Each tensor starts at a multiple of this many bytes, so that it can be mapped (Map). 1 is TensorFlow's own choice.
  // At most 2^30.
  uint64_t alignment = 64;
  bool sync = true;  // durable when Finish returns
  // 1 to 1024. With 1 the caller of Add writes. With more, Add hands a lazy clone of the tensor to a thread (shard i to
  // thread i modulo num_threads), and waits while tensors of more than 64 MiB together wait for that thread. Threads
  // beyond the number of shards encode chunks. The bytes of the files do not depend on it.
  int num_threads = 1;
  // Add only takes lazy clones, and FinishInBackground writes: the caller's stall is the time to take references.
  bool background = false;
  // Replace a checkpoint of this name; a crash meanwhile leaves the old one, the new one or none. Data files of an old
  // one that had another number of shards are removed at the end, best effort. Data files without an index, as a killed
  // save may leave them, are refused like a checkpoint unless this is set.
  bool overwrite = false;
  // Bytes of a block of the index; 0: 256 KiB with alignment 1, which are TensorFlow's bytes, else 16 KiB, which makes
  // looking up one tensor of many cheap.
  size_t index_block_bytes = 0;

  // Tensors above kStored are encoded, compressed and checked chunk by chunk, if that makes them 2 % smaller (large
  // ones are judged on samples); TensorFlow then refuses the checkpoint (FORMAT.md section 4.3). The others are written
  // as without. Not encoded are variants, and what keeps another order than row-major (StoredLayout::kPreserve). Of
  // encoded tensors with the same elements, dtype and level a shard has the bytes once. Payloads of strings are held
  // whole in memory on their way out, and so may be those of tensors up to 16 MiB.
  PayloadLevel level = PayloadLevel::kStored;
  std::vector<LevelRule> level_rules;    // the first that matches a name counts, instead of `level`
  size_t chunk_bytes = size_t{1} << 20;  // as PayloadOptions::chunk_bytes
  // An earlier checkpoint: tensors that are to be encoded are stored as differences from the one of the same name,
  // dtype and number of elements in it, where that is smaller. Whoever reads those needs it
  // (CheckpointReaderOptions::base), so it must be kept. Tensors that are deltas there are not used, nor those that
  // cannot be read. Each is read whole.
  std::shared_ptr<const CheckpointReader> base;
};

struct AddOptions {
  int shard = 0;            // which data file
  TensorMetadata metadata;  // travels beside the tensor; TensorFlow skips it
  // kPreserve: as the elements lie in memory, with the strides. What is not row-major is then guarded: TensorFlow
  // refuses the checkpoint, as it does for dtypes that it lacks (FORMAT.md section 4.3).
  StoredLayout layout = StoredLayout::kRowMajor;
  std::optional<PayloadLevel> level;  // instead of what level_rules and level of the writer say
};

class CheckpointWriter {
 public:
  // Errors: AlreadyExists if there is such a checkpoint (unless overwriting); InvalidArgument for a bad prefix or
  // option, and for a base that would be replaced; from errno, naming the file.
  static absl::StatusOr<CheckpointWriter> Create(const std::string& prefix,
                                                 const CheckpointWriterOptions& options = {});

  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // The elements of `tensor` in row-major order: a view of other strides is gathered piece by piece, so that memory
  // stays bounded (strings: copied whole). The caller may change the tensor when Add is back, however it is written;
  // with threads or in the background, not through pointers taken before (tensor/buffer.h says why).
  // Errors: InvalidArgument for an empty name, one that starts with a NUL byte, one over 64 KiB, a shard or level that
  // is none, or metadata that the tensor cannot have; AlreadyExists for a name added before; Unimplemented for
  // resources; FailedPrecondition for a buffer without data; ResourceExhausted; from errno, naming the file; with
  // several threads, what any of them met.
  absl::Status Add(absl::string_view name, const TensorView& tensor, const AddOptions& options = {});

  // One piece of a tensor of shape `full_shape`: several processes or calls store it together. A piece that is the
  // whole tensor is stored as Add does; others row-major, whatever options.layout says. Whether pieces cover the tensor
  // is for the reader to see. The metadata of the tensor is that of its first piece. Errors: as Add; InvalidArgument if
  // dtype, shape or rank disagree with `slice` or with an earlier piece, and for a piece that overlaps one; OutOfRange
  // for a slice outside.
  absl::Status AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                        const TensorView& tensor, const AddOptions& options = {});

  // Writes the index and publishes. Errors: FailedPrecondition if called twice; from errno, naming the file.
  absl::Status Finish();

  // The same on a thread of its own; errors arrive with the result. Requires options.background. What was added is
  // held until it is written: as much memory as the tensors have, and as much again for those that somebody writes to
  // meanwhile. Tensors in mapped or external memory were copied by Add, since nobody can tell who writes to those.
  // Errors: FailedPrecondition without options.background, or if called twice.
  absl::StatusOr<BackgroundSave> FinishInBackground();

 private:
  class Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITER_H_
