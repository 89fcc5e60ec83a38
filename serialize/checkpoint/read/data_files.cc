#include "tensorcask/serialize/checkpoint/read/data_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {

DataFiles::DataFiles(std::string prefix, int num_shards, std::shared_ptr<const ByteSource> index,
                     const ReadOptions& options)
    : prefix_(std::move(prefix)), num_shards_(num_shards), index_(std::move(index)), options_(options) {}

std::string DataFiles::Path(int shard) const { return DataPath(prefix_, shard, num_shards_); }

absl::StatusOr<std::shared_ptr<const ByteSource>> DataFiles::FileOf(const CheckpointEntry& entry) const {
  std::shared_ptr<const ByteSource> file;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto open = open_.find(entry.shard);
    if (open != open_.end()) file = open->second;
  }
  if (file == nullptr) {
    absl::StatusOr<std::shared_ptr<const ByteSource>> opened = OpenFileSource(Path(entry.shard), options_);
    if (WasReplaced(*index_)) {
      return absl::AbortedError(
          absl::StrCat(Path(entry.shard), ": the checkpoint was replaced or removed while it was read; open it again"));
    }
    // A file that the index names is missing, or is a folder. NotFound would mean "no such tensor" to the caller, and
    // FailedPrecondition that a base is missing.
    if (absl::IsNotFound(opened.status()) || absl::IsFailedPrecondition(opened.status())) {
      return MarkDamagedPart(
          absl::DataLossError(absl::StrCat(opened.status().message(), ", though the index names it")));
    }
    CASK_RETURN_IF_ERROR(opened.status());
    const std::lock_guard<std::mutex> lock(mutex_);
    file =
        open_.emplace(entry.shard, *std::move(opened)).first->second;  // of several threads that opened it, the first
  }
  if (!RangeFits(entry.offset, entry.stored_bytes, file->size_bytes())) {
    const absl::Status cut = absl::DataLossError(
        absl::StrCat(file->name(), ": has ", file->size_bytes(), file->size_bytes() == 1 ? " byte; " : " bytes; ",
                     entry.stored_bytes, " at ", entry.offset, " are wanted (an incomplete download?)"));
    // Elements often begin with zeros; what another program left in place of them does not.
    char first = 0;
    const bool is_zero = file->ReadAt(0, absl::MakeSpan(&first, 1)).ok() && first == 0;
    return MarkDamagedPart(is_zero ? cut : ExplainContent(cut, *file, "checkpoint"));
  }
  return file;
}

std::shared_ptr<const ByteSource> DataFiles::FileToPlan(int shard) const {
  if (!are_planned() || shard < 0 || shard >= num_shards_) return nullptr;
  CheckpointEntry nothing;
  nothing.shard = shard;
  return FileOf(nothing).value_or(nullptr);
}

}  // namespace tensorcask::checkpoint
