// Reads checkpoints (TensorFlow's tensor bundles: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN).
//
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open("/models/step-100"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("dense/kernel"));
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("embedding", *TensorSlice::Parse("1000,10:-")));
//
// Open reads only the ends of the index, so it is fast for any number of tensors. A data file is opened when a caller
// first reads a tensor in it. A reader verifies the checksum of a tensor the first time it reads or maps the tensor,
// and the checksums of the chunks of an encoded tensor each time it reads them (Verify::kNever switches both off). A
// damaged file gives DataLoss, naming the tensor, the file and the offset; the reader never crashes on it and never
// allocates memory because a damaged file says so. If another process overwrites the checkpoint while it is open, data
// files that the reader has not opened yet are missing. After a second overwriting the checksums do not match
// (Verify::kNever does not notice this). In both cases open the checkpoint again. All methods are const and
// thread-safe.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace checkpoint {
class ReaderImpl;
}

struct CheckpointNamedTensor {
  std::string name;
  Tensor tensor;
};

// A checkpoint can be the base of another one: CheckpointWriterOptions and CheckpointReaderOptions.
class CheckpointReader final : public BaseLookup {
 public:
  // `path` is the prefix, or the path of the .index file. Open also reads files of big-endian machines, and V1
  // checkpoints; the `path` of a V1 checkpoint is that of its only file. Errors: NotFound, naming the index; DataLoss
  // if the file is not a checkpoint or is damaged; Unimplemented if the checkpoint requires a newer reader;
  // InvalidArgument for a path that CheckPath (serialize/io/file_system.h) refuses; ResourceExhausted past a limit.
  static absl::StatusOr<CheckpointReader> Open(const std::string& path, const CheckpointReaderOptions& options = {});

  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader() override;

  const std::string& prefix() const;
  int num_shards() const;
  std::string DataPath(int shard) const;  // Requires: 0 <= shard < num_shards()
  // The data file for a plan of reads (serialize/io/read_plan.h). Null where nothing is planned: on a disk, and for
  // shards that cannot be opened.
  std::shared_ptr<const ByteSource> FileToPlan(int shard) const;
  // Opens these data files at the same time, where reads are planned, before they are asked for one after the other.
  void OpenTogether(absl::Span<const int> shards) const;
  // The same for the stored pieces of a sliced tensor, in the order in which it is read. The step has no source where
  // nothing is planned, and for a tensor that is not sliced or cannot be read.
  ReadPlan::Step PiecesToPlan(absl::string_view name) const;
  // Whether ReadInto reads the stored bytes of the tensor straight into memory of the host that is dense and row-major.
  bool IsReadInPlace(absl::string_view name) const;

  // All tensors, sorted by name (as unsigned bytes); a sliced tensor is one. Checks order and structure of the whole
  // index, and that no two ranges of a data file overlap, except ranges that encoded tensors share. A stored piece that
  // no tensor lists is not an error here; VerifyAll reports it. Reads no data file (V1: the whole file). Errors:
  // DataLoss, naming file and tensor; ResourceExhausted past a limit, before the list takes more than
  // max_memory_beyond_input + 16 times the bytes of the index.
  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;

  // Calls fn(entry) for the same tensors in the same order. Keeps no list; the call takes about 24 bytes of memory for
  // each entry. Ends at the first error of the index or of fn. Overlaps are found only after the last call of fn: if
  // ForEachEntry returns an error, discard the entries that fn received.
  absl::Status ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const;

  // The entry of one tensor. Errors: NotFound, naming tensor and file; DataLoss.
  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const;

  // The metadata that was stored with the tensor. Reads no data file. Errors: NotFound; DataLoss.
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const;

  // The tensor, row-major, in a new buffer of CheckpointReaderOptions::allocator or device_allocators. Errors, which
  // name file and tensor: NotFound; DataLoss; ResourceExhausted past a limit or if memory cannot be allocated;
  // Unimplemented for tensors that this version only lists (EntryForm; resources; variants of big-endian machines);
  // FailedPrecondition for a delta without its base.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // As Read, with the metadata, and with the strides that the tensor was stored with (on a device: with the order of
  // their axes).
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const;

  // Reads into *out, which must have the stored dtype and shape (else InvalidArgument, naming both) and may have any
  // strides and be on any device. On error the elements of *out are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;

  // A part of a tensor. Reads only the bytes that hold the part (for strings and variants: the whole tensor). A
  // checksum covers the whole stored tensor, so a part alone cannot be verified. With `verify_whole` the whole tensor
  // is read and verified first, unless that was done before (Read). Of an encoded tensor, only the chunks that hold the
  // part are read; they are verified each time, except with Verify::kNever. A delta also needs its whole base. If the
  // tensor is stored in pieces, the pieces that overlap `slice` are read, and those that lie inside it completely are
  // verified.
  // Errors: those of Read; OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank;
  // DataLoss if the stored pieces do not cover it.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole = false) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole = false) const;

  // All tensors for which `wanted` returns true (null: all tensors), sorted by name. Reads them in the order of the
  // files on `num_threads` threads; returns all of them or an error. Errors: those of Read, for the first tensor that
  // fails; ResourceExhausted if they need more than max_file_decoded_bytes together, before anything is read. The
  // contents of variants count, too. Their size is known only when they are read, so ReadAll reads variants first.
  absl::StatusOr<std::vector<CheckpointNamedTensor>> ReadAll(
      int num_threads = 1, const std::function<bool(const CheckpointEntry&)>& wanted = nullptr) const;

  // The tensor in read-only memory that is mapped from the file; the tensor keeps the mapping alive. Map copies instead
  // if the stored offset is not a multiple of the element's alignment, and for strings and encoded tensors. The file
  // must not change while it is mapped (see ReadStrategy::kMap). Writing to the tensor copies it first.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // The elements of one tensor from front to back, in bounded memory, verified at the end
  // (serialize/io/element_stream.h). Errors: those of Read; Unimplemented unless the elements are stored as numbers in
  // row-major order, in one piece, and for V1 checkpoints.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // Checks every checksum and every rule of structure of all files, whatever the options say, and calls report(damage)
  // for each thing that is wrong, in the order in which it finds them. Damage of the index itself ends the search. For
  // a delta it also reads the base and compares the hash of the base. A base with another hash, or a base that the
  // index names and that is missing, is reported as FailedPrecondition. Without CheckpointReaderOptions::base and a
  // name in the index the delta is counted in CheckpointCounts::without_base, not in `whole`. Errors: only what
  // prevents it from checking (permissions, for example, or no file descriptors or memory).
  absl::StatusOr<CheckpointCounts> VerifyAll(absl::FunctionRef<void(const CheckpointDamage&)> report) const;

  // BaseLookup: this checkpoint as the base of deltas (serialize/payload/base_lookup.h).
  absl::StatusOr<Info> FindBase(absl::string_view name) const override;
  absl::StatusOr<std::shared_ptr<const BaseTensor>> ReadBase(absl::string_view name) const override;
  std::string base_description() const override;
  std::optional<Location> base_location() const override;

 private:
  struct Devices;  // where elements go, unless all go to the host

  CheckpointReader(std::unique_ptr<const checkpoint::ReaderImpl> impl, std::unique_ptr<const Devices> devices);

  std::unique_ptr<const checkpoint::ReaderImpl> impl_;
  std::unique_ptr<const Devices> devices_;  // null: the host
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_CHECKPOINT_READER_H_
