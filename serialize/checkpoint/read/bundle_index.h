// The index of a tensor bundle: its header, its entries by name, and the pieces of sliced tensors (FORMAT.md sections 3
// and 4). Opens no data file.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_INDEX_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_BUNDLE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/internal/decode_quota.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {

// Of a piece that a tensor names.
absl::Status MissingPiece();

// An entry of the index.
struct LocatedEntry {
  IndexEntry index;          // with the name of the tensor
  std::string slice;         // of a piece: which, as text
  const void* id = nullptr;  // of this entry in this index; null: unknown

  // `tensor "w"`, `slice "0,2:-" of tensor "w"`.
  std::string Label() const;
};

// A part of a data file that an entry calls its own.
struct StoredRange {
  int32_t shard;
  uint64_t offset;
  uint64_t size_bytes;
  size_t entry;  // which, as the caller counts
  uint32_t masked_crc32c;
  std::shared_ptr<const PayloadHeader> payload;  // of an encoded entry
};
StoredRange RangeOf(const CheckpointEntry& entry, size_t number);

// Calls fn(former, latter, limit) for each entry, `latter`, whose bytes begin inside those of another one, `former`.
// Encoded entries with equal headers may share one range, as far as MaxDecodedBytes goes; past that, `limit` is the
// ResourceExhausted error, which names no entry. Else the two overlap: the index is damaged, and `limit` is OK.
void FindOverlaps(std::vector<StoredRange> ranges, const DecodeLimits& limits,
                  absl::FunctionRef<void(size_t, size_t, const absl::Status& limit)> fn);

// Bounds the memory for the entries of an index, which may be many times the file: keys share their beginnings there,
// and blocks may be compressed.
class IndexQuota {
 public:
  IndexQuota(std::string path, uint64_t index_bytes, const DecodeLimits& limits);

  // Counts one entry. Errors: ResourceExhausted past max_entries or max_unbacked_bytes, naming the file.
  absl::Status Charge(absl::string_view key);

 private:
  const std::string path_;
  const int64_t max_entries_;
  uint64_t num_entries_ = 0;
  DecodeQuota entries_;
  DecodeQuota keys_;
};

// Whether `piece` may be what is stored for `slice` of `tensor`: its dtype, the shape of the slice, and not in pieces
// itself. Errors: DataLoss, without names.
absl::Status CheckPiece(const CheckpointEntry& tensor, const TensorSlice& slice, const CheckpointEntry& piece);

// Methods are safe from several threads.
class BundleIndex {
 public:
  // `file` is PREFIX.index. Errors: DataLoss; Unimplemented for an index that wants a newer reader; ResourceExhausted
  // past a limit.
  static absl::StatusOr<std::unique_ptr<const BundleIndex>> Open(std::shared_ptr<const ByteSource> file,
                                                                 const DecodeLimits& limits);

  const std::string& path() const { return path_; }
  const IndexHeader& header() const { return header_; }

  // The entry of a tensor. Errors: NotFound; DataLoss.
  absl::StatusOr<LocatedEntry> Locate(absl::string_view name) const;
  // That of a piece of `tensor`. Errors: DataLoss if there is none; as CheckPiece.
  absl::StatusOr<LocatedEntry> LocatePiece(const LocatedEntry& tensor, const TensorSlice& slice) const;

  // Sets *entry to what a caller sees of `tensor`: a sliced one has the place of its first piece, and the bytes of all.
  // Errors: as LocatePiece.
  absl::StatusOr<CheckpointEntry> Describe(LocatedEntry tensor) const;

  // Calls fn(key, value) for all keys but the header's, in order: first those of pieces, then names. The views are
  // valid during the call. Errors: of the table; fn's, at once; ResourceExhausted past a limit.
  absl::Status ForEach(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const;

  // See CheckpointReader::entries.
  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;

 private:
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
