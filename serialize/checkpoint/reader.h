// Reads checkpoints (TensorFlow's tensor bundles: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN).
//
//   CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open("/models/step-100"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("dense/kernel"));
//
// Open reads only the ends of the index, so it is fast for any number of tensors; data files are opened when a tensor
// of theirs is first asked for. Each tensor's checksum is verified the first time it is read or mapped through a reader
// (Verify::kNever switches that off). A damaged file gives DataLoss, naming the tensor, the file and the offset; it
// never crashes, and nothing is allocated because a damaged file says so. A checkpoint that somebody overwrites
// while it is open is noticed by its checksums (not with Verify::kNever): open it again. All methods are const and
// thread-safe.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

enum class Verify { kOnRead, kNever };

struct CheckpointReaderOptions {
  ReadOptions read;  // file system, strategy, threads; of the data files
  Verify verify = Verify::kOnRead;
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();
};

// One thing found wrong by CheckpointReader::Verify.
struct CheckpointDamage {
  std::string tensor;  // "" if it is not about one
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // says it all in a sentence
};

// What CheckpointReader::VerifyAll found besides damage.
struct CheckpointCensus {
  int64_t whole = 0;  // tensors whose every byte was checked
  // Entries of which only the place could be checked, since this version only lists what they hold: guarded, encoded
  // and unknown forms, variants. Of sliced tensors each piece is an entry, and checked like a tensor, but not counted.
  int64_t not_checked = 0;
};

class CheckpointReader {
 public:
  // `path` is the prefix, or the path of the .index file.
  // Errors: NotFound, naming the index; DataLoss for a file that is none or is damaged; Unimplemented for one that says
  // it wants a newer reader, and for big-endian ones; InvalidArgument as CheckPath; ResourceExhausted past a limit.
  static absl::StatusOr<CheckpointReader> Open(const std::string& path, const CheckpointReaderOptions& options = {});

  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const std::string& prefix() const;
  int num_shards() const;
  std::string DataPath(int shard) const;  // of the data file; Requires: 0 <= shard < num_shards()

  // All tensors, by name (as unsigned bytes), after checking order and structure of the whole index and that no two
  // ranges of a data file overlap. Reads no data file.
  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;

  // Errors: NotFound, naming tensor and file.
  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const;

  // The tensor in memory of its own. Errors: NotFound; DataLoss; ResourceExhausted past a limit; Unimplemented for a
  // form that this version only lists.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;

  // The same into *out, whose dtype and shape must be the stored ones (InvalidArgument, naming both). On error the
  // elements of *out are unspecified (strings: as they were).
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;

  // Read-only memory mapped from the file, kept alive by the tensor; copied instead where the stored offset is not a
  // multiple of the element's alignment, and for strings. The file must not change meanwhile (see ReadStrategy::kMap).
  // Writing to the tensor copies it first.
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

  // Checks every checksum and every rule of structure of all files, whatever the options say, and calls report(damage)
  // for each thing that is wrong, in the order in which it is found. Damage of the index itself ends the search.
  // Errors: only what keeps it from looking (permissions, say).
  absl::StatusOr<CheckpointCensus> VerifyAll(absl::FunctionRef<void(const CheckpointDamage&)> report) const;

 private:
  class Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READER_H_
