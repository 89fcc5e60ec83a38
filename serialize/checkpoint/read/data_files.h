// Opens the data files of a checkpoint when they are first needed.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::checkpoint {

// Methods are safe from several threads.
class DataFiles {
 public:
  // `index` is the open index. A data file that is opened after another index has replaced it may belong to that one.
  DataFiles(std::string prefix, int num_shards, std::shared_ptr<const ByteSource> index, const ReadOptions& options);

  std::string Path(int shard) const;

  // The file that holds `entry`. Checks that the range of the entry lies in the file.
  // Errors: Aborted if the checkpoint was replaced since its index was opened, unless the file was opened before that;
  // DataLoss if there is no such file or it is too short; those of OpenFileSource. Where reads are planned, it may be
  // that only reading the file gives Aborted, but no bytes are given out before that is known.
  absl::StatusOr<std::shared_ptr<const ByteSource>> FileOf(const CheckpointEntry& entry) const;

  // The data file, opened if need be, where its reads are planned (serialize/io/read_plan.h). Null if they are not, or
  // if it cannot be opened: reading tells why.
  std::shared_ptr<const ByteSource> FileToPlan(int shard) const;
  // As FileToPlan, and need not wait until the file is open (OpenFileSourceSoon): FileOf waits.
  std::shared_ptr<const ByteSource> FileSoon(int shard) const;
  // Opens those of these data files that are not open yet, several at the same time, where reads are planned: there
  // each takes as long as a read. What cannot be opened is left to FileOf.
  void OpenTogether(absl::Span<const int> shards) const;
  bool are_planned() const { return index_->read_shape().in_flight > 1; }

 private:
  std::shared_ptr<const ByteSource> Keep(int shard, std::shared_ptr<const ByteSource> file) const;
  void Forget(int shard, const ByteSource* file) const;

  const std::string prefix_;
  const int num_shards_;
  const std::shared_ptr<const ByteSource> index_;
  const ReadOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<const ByteSource>> open_;  // by shard; only files that were opened
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_READ_DATA_FILES_H_
