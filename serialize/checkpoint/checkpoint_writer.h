// Writes checkpoints in the form of TensorFlow (tensor bundles), whole or not at all.
//
//   CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("/models/step-100", {}));
//   CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
//   CASK_RETURN_IF_ERROR(writer.Finish());   // now, and not before, there is a checkpoint
//
// Add writes the elements to the data file. The writer then keeps only names and offsets, so memory stays bounded.
// (With `background` it keeps the elements until FinishInBackground has written them.) A tensor that is larger than
// memory is added in blocks:
//
//   CASK_RETURN_IF_ERROR(writer.BeginTensor("embedding", DType::kFloat32, TensorShape({1000000, 512})));
//   for (const Tensor& rows : ...) CASK_RETURN_IF_ERROR(writer.AddBlock(rows));   // the last one completes the tensor
//
// The same tensors, added in the same order with the same options, give the same bytes. With alignment = 1 these are
// the bytes that TensorFlow writes (tested on 17 of its checkpoints).
//
// The writer creates files under temporary names beside the final ones and renames them in order, data first, index
// last (serialize/io/publication.h). The final index name appears in Finish, after all data files. A writer that is
// destroyed without Finish removes its files. If a writer was killed, Create removes the files that it left for the
// same prefix. After a failed Add or Finish every further call returns the same error. If a call ends with
// std::bad_alloc, all later calls return ResourceExhausted, so Finish never publishes a checkpoint that lacks a tensor.
// In threads of the library an exception becomes ResourceExhausted. After fork(2) only the parent has the writer: the
// copy of a child does nothing when it is destroyed (it removes no files and joins no threads), and its other functions
// return FailedPrecondition.
//
// One caller at a time. With `overwrite`, run one save of a checkpoint at a time: Finish of the second one returns
// Aborted if the first one has finished since Create of the second one. Two writers that finish the same checkpoint at
// the same moment can mix their files, and readers then see wrong checksums.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_WRITER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_WRITER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct LevelRule {
  std::string glob;  // a shell pattern (tensor/base/glob.h): * also matches '/'
  PayloadLevel level = PayloadLevel::kStored;
};

struct CheckpointWriterOptions {
  FileSystem* file_system = FileSystem::Posix();
  int num_shards = 1;  // data files; 1 to 99999
  // Each tensor starts at a multiple of this many bytes, so that it can be mapped (Map). 1 is TensorFlow's own choice.
  // At most 2^30.
  uint64_t alignment = 64;
  bool sync = true;  // durable when Finish returns
  // 1 to 1024. With 1 the caller of Add writes. With more, Add hands a lazy clone of the tensor to a thread (shard i to
  // thread i modulo num_threads), and waits while more than 64 MiB of tensors are queued for that thread. Threads
  // beyond the number of shards encode chunks. The bytes of the files do not depend on it.
  int num_threads = 1;
  // Add only makes lazy clones, and FinishInBackground writes the tensors, so the caller waits only for the clones.
  bool background = false;
  // Replace a checkpoint of this name. A crash at any moment leaves the old one or the new one, whole. (Without `sync`
  // this holds if the process ends, but not if the machine does.) If the old checkpoint has num_shards data files, the
  // new one gets one more, an empty one, so that no new data file has a name that the old index needs (FORMAT.md
  // section 6). CheckpointReader::num_shards counts it. Finish removes the data files that the old index counts last,
  // best effort.
  // A killed save may leave data files without an index. Unless this is set, they are refused like an existing
  // checkpoint.
  bool overwrite = false;
  // Bytes of a block of the index. 0: 256 KiB with alignment 1, as TensorFlow writes it, else 16 KiB, which makes it
  // cheap to look up one tensor of many.
  size_t index_block_bytes = 0;

  // Tensors above kStored are encoded, compressed and checked chunk by chunk, if that makes them 2 % smaller (large
  // ones are judged on samples); TensorFlow then refuses the checkpoint (FORMAT.md section 4.3). All other tensors are
  // stored as they would be at kStored. Variants, and tensors stored in another order than row-major
  // (StoredLayout::kPreserve), are not encoded. A shard stores encoded tensors with the same elements, dtype and level
  // once. The writer holds the whole payload of a string tensor in memory before it writes it, and may do so for other
  // tensors of up to 16 MiB. payload.base is an earlier checkpoint (or another BaseLookup), whose tensors are read
  // whole. Keep it as long as this checkpoint: a reader finds it in the same folder, and needs it as
  // CheckpointReaderOptions::base elsewhere.
  PayloadOptions payload = {};
  std::vector<LevelRule> level_rules;  // the first rule whose glob matches overrides payload.level
};

struct CheckpointAddOptions {
  int shard = 0;            // which data file
  TensorMetadata metadata;  // travels beside the tensor; TensorFlow skips it
  // kPreserve: in the order of memory, with the strides. A tensor that is not row-major is then extension-only:
  // TensorFlow refuses the checkpoint, as it refuses one with dtypes that it lacks (FORMAT.md section 4.3).
  StoredLayout layout = StoredLayout::kRowMajor;
  std::optional<PayloadLevel> level;  // overrides level_rules and payload.level of the writer
  // The caller does not change the elements until the save has ended. A writer with threads, or in the background, then
  // makes no clone. Elements on a device stay there until the writer writes them. No meaning for BeginTensor.
  bool unchanging = false;
};

class CheckpointWriter {
 public:
  // Makes the folder of `prefix` if it is missing (its parent must exist), durably with options.sync. The folder stays
  // if the save fails. Errors: AlreadyExists if the checkpoint exists (unless overwriting); InvalidArgument for a bad
  // prefix or option, for a base that the save would replace, and if num_shards is 99999 and the checkpoint to be
  // replaced has as many; from errno, naming the file.
  static absl::StatusOr<CheckpointWriter> Create(const std::string& prefix,
                                                 const CheckpointWriterOptions& options = {});

  // Errors: InvalidArgument for a name that is empty, starts with a NUL byte or is longer than 64 KiB.
  static absl::Status CheckName(absl::string_view name);

  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // Stores the elements of `tensor` in row-major order. A view with other strides is gathered piece by piece, so that
  // memory stays bounded (strings: copied whole). Elements in external or mapped memory are copied piece by piece, too,
  // so that the checksum is that of the stored bytes even if another process writes to the memory meanwhile: the saved
  // tensor verifies, and holds old or new values. The caller may change the tensor after Add returns; with threads or
  // in the background, not through pointers from before Add (tensor/buffer.h says why). Errors: InvalidArgument for a
  // name that is empty, starts with a NUL byte or is longer than 64 KiB, for an unknown shard or level, and for
  // metadata that the tensor cannot have; AlreadyExists for a name added before; Unimplemented for resources;
  // FailedPrecondition for a buffer without data; ResourceExhausted; from errno, naming the file. With several threads
  // also the error of an earlier Add.
  // A tensor on a device (tensor/memory) is copied to the host through pinned memory, after the work that is on its
  // stream when Add is called; the device copies one piece while the writer writes another. With threads or in the
  // background, Add starts a copy of the whole tensor to pinned memory and returns: work that is added to the stream
  // afterwards does not change what is saved. The device is recorded in the metadata, unless the metadata names one.
  // Errors of the device are errors of Add, or of a later call.
  absl::Status Add(absl::string_view name, const TensorView& tensor, const CheckpointAddOptions& options = {});

  // Stores one piece of a tensor of shape `full_shape`; other calls, or other processes, store the rest. A piece that
  // is the whole tensor is stored as by Add; other pieces are stored row-major, whatever options.layout says. The
  // writer does not check that the pieces cover the tensor; the reader does. The metadata of the tensor is that of its
  // first piece. Errors: those of Add; InvalidArgument if dtype, shape or rank disagree with `slice` or with an earlier
  // piece, and for a piece that overlaps another; OutOfRange for a slice outside the tensor.
  absl::Status AddSlice(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                        const TensorView& tensor, const CheckpointAddOptions& options = {});

  // Starts a tensor whose elements the caller adds with AddBlock. Until all elements are added, only AddBlock may be
  // called. A tensor without elements is complete at once. The bytes are those that Add writes at level kStored.
  // Errors: those of Add; Unimplemented for strings and variants; InvalidArgument for a level above kStored (set
  // options.level); FailedPrecondition if another tensor is incomplete.
  absl::Status BeginTensor(absl::string_view name, DType dtype, const TensorShape& shape,
                           const CheckpointAddOptions& options = {});

  // Adds the next elements, in row-major order, of the tensor that BeginTensor started. `block` has the dtype of the
  // tensor and any shape. The writer writes the elements and adds them to the checksum, as Add does. It keeps none of
  // them in memory (with threads: up to 64 MiB; in the background: all). With the last element the tensor is complete.
  // Errors: those of Add; FailedPrecondition if no tensor was started; InvalidArgument for another dtype, and for a
  // block with more elements than the tensor still needs; nothing of such a block is written. After an error, Finish
  // publishes no checkpoint.
  absl::Status AddBlock(const TensorView& block);

  // The files that Finish will replace and remove, as they are now. Errors: FailedPrecondition after Finish.
  absl::StatusOr<ReplacedFiles> Replaced() const;

  // Writes the index and publishes. Errors: FailedPrecondition if called twice or while a tensor lacks elements;
  // Aborted if another save has replaced the checkpoint since Create; from errno, naming the file. With `overwrite` the
  // old checkpoint stays if this fails, unless only the last sync of the folder failed.
  absl::Status Finish();
  // The paths of the data files of the old checkpoint that Finish removed.
  const std::vector<std::string>& removed_files() const;

  // Finishes on a new thread; errors arrive with the result. Requires options.background. The tensors stay in memory
  // until they are written. If the program changes a tensor before that, the library copies it first: twice the
  // memory. Tensors in mapped or external memory are copied by Add, because the library cannot notice writes to
  // such memory.
  // Errors: FailedPrecondition without options.background, or if called twice.
  absl::StatusOr<BackgroundSave> FinishInBackground();

 private:
  class Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_WRITER_H_
