// Opens the data files of a checkpoint when they are first needed, and reads and checks the bytes of one entry.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::checkpoint {

// Checks the bytes of an entry while they are read.
class ByteChecker {
 public:
  // Compares the checksum only if `verify` is set. Always checks that bools, if not encoded, are 0 or 1.
  ByteChecker(const CheckpointEntry& entry, bool verify)
      : entry_(entry), verify_(verify), bools_(entry.dtype == DType::kBool && entry.payload == nullptr) {}

  bool idle() const { return !verify_ && !bools_; }
  // The next bytes, in order; with Copy they are written to `to` in the same pass.
  void Check(absl::string_view bytes);
  void Copy(absl::string_view bytes, char* to);
  // Errors: DataLoss, without the name of the tensor.
  absl::Status Finish() const;

 private:
  const CheckpointEntry& entry_;
  const bool verify_;
  const bool bools_;
  uint32_t crc_ = 0;
  bool has_other_bytes_ = false;  // than 0 and 1; bools only
};

// Compares `found`, unmasked, with what the index says. Errors: DataLoss, without the name of the tensor.
absl::Status CheckChecksum(const CheckpointEntry& entry, uint32_t found);

// Methods are safe from several threads.
class DataFiles {
 public:
  // `index` is the open index. A data file that is opened after another index has replaced it may belong to that one.
  DataFiles(std::string prefix, int num_shards, std::shared_ptr<const ByteSource> index, const ReadOptions& options);

  std::string Path(int shard) const;

  // The file that holds `entry`. Checks that the range of the entry lies in the file.
  // Errors: Aborted if the checkpoint was replaced since its index was opened, unless the file was opened before that;
  // DataLoss if there is no such file or it is too short; as OpenFileSource.
  absl::StatusOr<std::shared_ptr<const ByteSource>> FileOf(const CheckpointEntry& entry) const;

  // Fills `out` with the bytes of `entry`, checking them while they are in the cache. Requires: out.size() is
  // entry.stored_bytes; `file` is FileOf(entry).
  absl::Status Read(const ByteSource& file, const CheckpointEntry& entry, bool verify, absl::Span<char> out) const;

 private:
  const std::string prefix_;
  const int num_shards_;
  const std::shared_ptr<const ByteSource> index_;
  const ReadOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<const ByteSource>> open_;  // by shard; only files that were opened
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_
