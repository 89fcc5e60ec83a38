// Reads checkpoints (TensorFlow's tensor bundles: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN).
//
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open("/models/step-100"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("dense/kernel"));
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("embedding", *TensorSlice::Parse("1000,10:-")));
//
// Open reads only the ends of the index, so it is fast for any number of tensors; data files are opened when a tensor
// of theirs is first asked for. Each tensor's checksum is verified the first time it is read or mapped through a reader
// (Verify::kNever switches that off); of encoded tensors, those of the chunks that are read, each time. A damaged file
// gives DataLoss, naming the tensor, the file and the offset; it never crashes, and nothing is allocated because a
// damaged file says so. A checkpoint that somebody overwrites while it is open is noticed by its checksums (not with
// Verify::kNever): open it again. All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/reader_types.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace checkpoint {
class ReaderImpl;
}

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class CheckpointReader {
 public:
  // `path` is the prefix, or the path of the .index file.
  // Files of big-endian machines are read too, and V1 checkpoints, whose `path` is that of the one file.
  // Errors: NotFound, naming the index; DataLoss for a file that is none or is damaged; Unimplemented for one that says
  // it wants a newer reader; InvalidArgument as CheckPath; ResourceExhausted past a limit.
  static absl::StatusOr<CheckpointReader> Open(const std::string& path, const CheckpointReaderOptions& options = {});

  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  // For this room: what stands behind it, which keeps it alive; null for null.
  static std::shared_ptr<const checkpoint::ReaderImpl> ImplOf(const std::shared_ptr<const CheckpointReader>& reader);

  const std::string& prefix() const;
  int num_shards() const;
  std::string DataPath(int shard) const;  // of the data file; Requires: 0 <= shard < num_shards()

  // All tensors, by name (as unsigned bytes), after checking order and structure of the whole index and that no two
  // ranges of a data file overlap, but for those that encoded tensors share; a sliced tensor is one. A stored piece
  // that no tensor lists is not seen here: VerifyAll reports it. Reads no data file (V1: the whole file). Errors:
  // DataLoss, naming file and tensor; ResourceExhausted past a limit.
  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;

  // The same of one tensor. Errors: NotFound, naming tensor and file; DataLoss.
  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const;

  // What was stored beside the tensor. Reads no data file. Errors: NotFound; DataLoss.
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const;

  // The tensor in memory of its own, row-major. Errors, which name file and tensor: NotFound; DataLoss;
  // ResourceExhausted past a limit or without memory; Unimplemented for what this version only lists (EntryForm;
  // resources; variants of big-endian machines); FailedPrecondition for a delta without its base.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // The same with its metadata, and with the strides it was stored with.
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const;

  // The same into *out, whose dtype and shape must be the stored ones (InvalidArgument, naming both); the strides of a
  // view are the caller's. On error the elements of *out are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;

  // A part of a tensor, from the bytes that hold it and no others (strings and variants: the whole tensor is read). A
  // checksum stands for all bytes of what was stored, so that a part is verified only if the whole was before (Read,
  // Verify); `verify_whole` reads and checks all of it first. Of an encoded tensor the chunks that hold the part are
  // read, and verified each time but with Verify::kNever (of a delta, all of its base). Of a sliced tensor only the
  // pieces that `slice` touches are read; those that it has whole are verified.
  // Errors: as Read; OutOfRange for a slice outside; InvalidArgument for one of another rank; DataLoss if the stored
  // pieces do not cover it.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole = false) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole = false) const;

  // All tensors that `wanted` (null: all) takes, by name, read in the order of the files on `num_threads` threads.
  // All or nothing. Errors: as Read, of the first tensor that has one; ResourceExhausted if they take more than
  // max_file_decoded_bytes together, before anything is read. What is in variants is known only when they are read: it
  // counts too, tensor by tensor, before memory is taken for it.
  absl::StatusOr<std::vector<NamedTensor>> ReadAll(
      int num_threads = 1, const std::function<bool(const CheckpointEntry&)>& wanted = nullptr) const;

  // Read-only memory mapped from the file, kept alive by the tensor; copied instead where the stored offset is not a
  // multiple of the element's alignment, for strings and for encoded tensors. The file must not change meanwhile (see
  // ReadStrategy::kMap). Writing to the tensor copies it first.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // Checks every checksum and every rule of structure of all files, whatever the options say, and calls report(damage)
  // for each thing that is wrong, in the order in which it is found. Damage of the index itself ends the search.
  // Errors: only what keeps it from looking (permissions, say, or no more file descriptors or memory).
  absl::StatusOr<CheckpointCensus> VerifyAll(absl::FunctionRef<void(const CheckpointDamage&)> report) const;

 private:
  explicit CheckpointReader(std::unique_ptr<const checkpoint::ReaderImpl> impl);

  std::unique_ptr<const checkpoint::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_
