// The index of a tensor bundle: its header, its entries by name, and the pieces of sliced tensors (FORMAT.md sections 3
// and 4). Opens no data file.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_INDEX_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/read/stored_ranges.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {

// The error for a piece that a tensor lists and the index lacks.
absl::Status MissingPiece();

// An entry of the index.
struct LocatedEntry {
  IndexEntry index;          // with the name of the tensor
  std::string slice;         // for a piece: its slice, as text
  const void* id = nullptr;  // the id of this entry in this index; null: unknown

  // `tensor "w"`, `slice "0,2:-" of tensor "w"`.
  std::string Label() const;
};

// Sets the entry of a tensor or a piece from its key and value; does not set the id.
// Errors, without names: those of DecodeEntry, DecodeSliceKey.
absl::Status LocateAt(absl::string_view key, absl::string_view value, int num_shards, const DecodeLimits& limits,
                      LocatedEntry* located);

// Bounds a walk over an index. Its names together may be many times as long as the file, because keys share prefixes
// and blocks may be compressed.
class IndexQuota {
 public:
  IndexQuota(std::string path, uint64_t index_bytes, const DecodeLimits& limits);

  // Counts one entry. Errors: ResourceExhausted past max_entries or max_memory_beyond_input, naming the file.
  absl::Status Charge(absl::string_view key);

 private:
  const std::string path_;
  const int64_t max_entries_;
  uint64_t num_entries_ = 0;
  DecodeQuota keys_;
};

// Checks that `piece` fits `slice` of `tensor`: it has the dtype of the tensor and the shape of the slice, and is not
// in pieces itself. Errors: DataLoss, without names.
absl::Status CheckPiece(const CheckpointEntry& tensor, const TensorSlice& slice, const CheckpointEntry& piece);

// Methods are safe from several threads.
class BundleIndex {
 public:
  // `file` is PREFIX.index.
  // Errors: DataLoss; Unimplemented if the index requires a newer reader; ResourceExhausted past a limit.
  static absl::StatusOr<std::unique_ptr<const BundleIndex>> Open(std::shared_ptr<const ByteSource> file,
                                                                 const DecodeLimits& limits);

  const std::string& path() const { return path_; }
  const IndexHeader& header() const { return header_; }

  // The entry of a tensor. Errors: NotFound; DataLoss.
  absl::StatusOr<LocatedEntry> Locate(absl::string_view name) const;
  // The entry of a piece of `tensor`. Errors: DataLoss if the index has no such piece; those of CheckPiece.
  absl::StatusOr<LocatedEntry> LocatePiece(const LocatedEntry& tensor, const TensorSlice& slice) const;

  // The entry of `tensor` as callers see it: that of a sliced tensor has the shard and offset of its first piece, and
  // the size of all pieces together. Errors: those of LocatePiece.
  absl::StatusOr<CheckpointEntry> Describe(LocatedEntry tensor) const;

  // Calls fn(number, key, value) for all keys but the header's, in order: first those of pieces, then names. Numbers
  // count from 0. The views are valid during the call. `memory` is charged with the block in memory, and during a call
  // with the memory that DecodeEntry needs for a large value.
  // Errors: those of the table; those of fn, which ends the walk; ResourceExhausted past a limit.
  using Visitor = absl::FunctionRef<absl::Status(uint32_t number, absl::string_view key, absl::string_view value)>;
  absl::Status ForEach(DecodeQuota* memory, Visitor fn) const;
  // A quota for the memory of one call: max_memory_beyond_input and twice the index, less the memory that the index
  // already uses.
  DecodeQuota NewQuota() const { return table_->NewQuota(); }
  const TableReader& table() const { return *table_; }

  // See CheckpointReader::ForEachEntry.
  absl::Status ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const;
  // See CheckpointReader::entries.
  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;

  // The entries with these numbers that can be decoded, by number. Walks over the index.
  absl::StatusOr<std::map<uint32_t, LocatedEntry>> EntriesOf(const std::set<uint32_t>& numbers) const;

 private:
  absl::Status CheckOverlaps(StoredRanges* ranges) const;

  BundleIndex(std::string prefix, std::string path, uint64_t index_bytes, const IndexHeader& header,
              std::unique_ptr<TableReader> table, const DecodeLimits& limits);

  const std::string prefix_;
  const std::string path_;
  const uint64_t index_bytes_;
  const IndexHeader header_;
  const std::unique_ptr<TableReader> table_;
  const DecodeLimits limits_;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_INDEX_H_
