// Reads the tensors of one file, whatever its format.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> archive, OpenArchive(path, formats));   // archive.h
//   for (const ArchiveEntry& entry : archive->entries()) ...
//   CASK_ASSIGN_OR_RETURN(Tensor w, archive->Read("dense/kernel"));
//
// All methods are const and thread-safe. Errors name the file and the tensor: NotFound for an unknown name, DataLoss
// for a damaged file, ResourceExhausted past a limit, Unimplemented for tensors that the format only lists.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_READER_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// Text that a file keeps beside its tensors, such as `__metadata__` of safetensors.
using FileMetadata = std::map<std::string, std::string>;

// One thing that VerifyAll found wrong.
struct ArchiveDamage {
  std::string tensor;  // "" if the damage is not that of one tensor
  std::string file;
  uint64_t offset = 0;
  // A sentence with all of the above. FailedPrecondition: a delta whose base is not the right one. ResourceExhausted: a
  // limit, not damage.
  absl::Status status;
};

// What VerifyAll found besides damage.
struct TensorCounts {
  int64_t whole = 0;               // tensors that passed all checks that the format allows
  int64_t damaged = 0;             // tensors with damage; a tensor counts once
  int64_t damaged_elsewhere = 0;   // places of damage outside of tensors: the index, a data file that is missing
  int64_t not_readable = 0;        // deltas for which the given base is not the right one
  int64_t past_limit = 0;          // tensors that were not checked because of a limit; they may be whole
  int64_t not_checked = 0;         // tensors of a kind that this version only lists
  int64_t incomplete = 0;          // tensors of which the file has only parts; these are whole
  int64_t without_base = 0;        // deltas whose stored bytes are whole, and whose base is not given
  std::vector<std::string> notes;  // sentences about unusual but harmless findings
};

namespace archive {
// The note that `count` tensors of the file have no checksum.
std::string NoChecksums(absl::string_view path, int64_t count);
}  // namespace archive

class ArchiveReader {
 public:
  virtual ~ArchiveReader() = default;

  virtual absl::string_view format() const = 0;                // ArchiveFormat::name
  virtual const std::string& path() const = 0;                 // for error messages
  virtual bool has_names() const { return true; }              // false: the file has one tensor, named after the file
  virtual bool strides_only_permute() const { return false; }  // as ArchiveTraits::strides_only_permute
  // Sorted by name (as unsigned bytes); no two have the same name. Empty if an option of the format says that the
  // caller needs no list (CheckpointFormatOptions::keep_entries).
  virtual const std::vector<ArchiveEntry>& entries() const = 0;
  // Calls fn(entry) for each tensor, in the same order.
  // Errors: those of fn and of the format. After an error, discard the entries that fn received.
  virtual absl::Status ForEachEntry(absl::FunctionRef<absl::Status(const ArchiveEntry&)> fn) const;
  virtual const FileMetadata& file_metadata() const;  // by default empty
  // The values of the file as a tree, in which a tensor is its number in entries(). By default the entries of
  // file_metadata(). Each call makes the tree.
  virtual absl::StatusOr<ValueTree> Values() const;
  // False if file_metadata() is beside Values(), and not among them: a PyTorch file has it beside its object.
  virtual bool values_have_metadata() const { return true; }
  // The entries of file_metadata() that Values() does not have, as a map like that of the default of Values(). An empty
  // tree if there are none.
  ValueTree MetadataBesideValues() const;
  // True if the file has the types of its metadata, as GGUF does. Else an entry "tensorcask.values" may have them
  // (internal/value_table.h).
  virtual bool has_types_of_metadata() const { return false; }
  // The elements, as a list, of an array that Values() leaves in the file. Requires: `array` is from this archive.
  virtual absl::StatusOr<ValueTree> ReadFileArray(const FileArray& array) const;
  // The bytes of the same elements, as GgufReader::ReadArrayBytes has them.
  virtual absl::StatusOr<std::string> ReadFileArrayBytes(const FileArray& array) const;
  absl::StatusOr<const ArchiveEntry*> Find(absl::string_view name) const;  // Errors: NotFound, with similar names
  // The names of the tensors that optimizers keep beside the variables they train, sorted (checkpoint/object_graph.h).
  // Errors: InvalidArgument for files that do not say which these are (the default); those of reading.
  virtual absl::StatusOr<std::vector<std::string>> OptimizerSlots() const;

  // The tensor, row-major, in a new buffer.
  virtual absl::StatusOr<Tensor> Read(absl::string_view name) const = 0;
  // Reads into *out, which must have the stored dtype and shape, else InvalidArgument; any strides; on the host or a
  // device.
  virtual absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  // A part of a tensor. Reads only the bytes of the part if the format allows that; then no checksum of the whole
  // tensor is verified.
  // Errors: also OutOfRange for a slice outside the tensor, InvalidArgument for another rank.
  virtual absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const = 0;
  virtual absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // The tensor in memory that is mapped from the file, or a copy where the format does not allow that. The file must
  // not change while it is mapped (ReadStrategy::kMap).
  virtual absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // The tensor with its metadata, in the order in which its elements are stored.
  virtual absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const;
  // The same, without the metadata that cannot be read. By default without any metadata.
  virtual absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const;
  virtual absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const;

  // The elements, row-major, in blocks of at most `block_bytes` (at least one element). Reads the whole tensor first
  // unless entry.reads_in_blocks.
  virtual absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                                   uint64_t block_bytes) const;

  // Reads all tensors, verifies every checksum, and calls report(damage) for each thing that is wrong.
  // Errors: only what prevents it from checking.
  virtual absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const;

  // The same archive with each encoded tensor as its encoded bytes, and with the shape of these bytes. A conversion
  // copies them to a target that has the same encoding (ArchiveFormat::HoldsEncoding). Null, the default: there is no
  // such form. Valid as long as this reader.
  virtual const ArchiveReader* AsStored() const { return nullptr; }

  // The path of a file from which a new file of this format can be made (ArchiveTraits::needs_base). "", the default:
  // there is none; the archive may be in memory, where path() names no file.
  virtual std::string base_path() const { return ""; }

  // The paths of the files that it reads, first the one that lists the others. By default {path()}.
  virtual std::vector<std::string> files() const { return {path()}; }
  virtual int num_shards() const { return 1; }  // the number of files with elements
  // The open file that has the stored bytes of the entry at entry.offset, for a plan of reads (io/read_plan.h). Null,
  // the default: they are not planned.
  virtual std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& /*entry*/) const { return nullptr; }
  // Adds the stored bytes of the entry to *plan, if it is known where they are.
  void PlanRead(const ArchiveEntry& entry, ReadPlan* plan) const;
  // The step that reads the entry in ReadPlan::StartSteps, by default its stored bytes at entry.offset. An empty step
  // if `entry` is null or if it is not known where the bytes are.
  virtual ReadPlan::Step StepOf(const ArchiveEntry* entry) const;
  // Opens the files that the entries need at the same time, where a plan will read them. Null is not known.
  virtual void OpenFilesOf(absl::Span<const ArchiveEntry* const> /*entries*/) const {}
  // Whether ReadInto reads what StepOf says straight into memory of the host that is dense and row-major, so that a
  // plan may fetch it there. The default: no.
  virtual bool IsReadInPlace(const ArchiveEntry& /*entry*/) const { return false; }
  // ArchiveEntry::read_status, with the names of file and tensor. Requires: `entry` is one of this archive.
  absl::Status CheckReadable(const ArchiveEntry& entry) const;
  // Sentences about unusual but harmless things in the file: the broken rules that ArchiveReaderOptions::lenient
  // accepted, and what is not a tensor and so is not read.
  virtual std::vector<std::string> notes() const { return {}; }
  // What a file lacks that is written from entries(), metadata and Values(), as phrases: "the attributes of 1 dict
  // (_metadata)". By default nothing.
  virtual std::vector<std::string> NotWritten() const { return {}; }

 protected:
  // The stream from which ReadBlocks reads; it verifies the tensor at the end. Null, the default: ReadBlocks reads
  // slices. Requires: entry.reads_in_blocks.
  virtual absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_READER_H_
