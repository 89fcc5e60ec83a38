#include "tensorcask/serialize/checkpoint/read/data_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/internal/content_hint.h"
#include "tensorcask/serialize/io/internal/damage_mark.h"
#include "tensorcask/serialize/io/internal/was_replaced.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

// So much is read at a time, and then checked while it is still in the second-level cache.
constexpr size_t kChunkBytes = size_t{512} << 10;
// For the parallel strategy, which splits large reads only.
constexpr size_t kParallelChunkBytes = size_t{64} << 20;

}  // namespace

void ByteChecker::Check(absl::string_view bytes) {
  if (verify_) crc_ = ExtendCrc32c(crc_, bytes);
  if (bools_ && !AreBools(bytes)) has_other_bytes_ = true;
}

void ByteChecker::Copy(absl::string_view bytes, char* to) {
  if (verify_) {
    crc_ = CopyAndExtendCrc32c(crc_, bytes.data(), to, bytes.size());
  } else {
    std::copy(bytes.begin(), bytes.end(), to);
  }
  // Checks the copy, because the copy is used, whatever happens to the file.
  if (bools_ && !AreBools({to, bytes.size()})) has_other_bytes_ = true;
}

absl::Status ByteChecker::Finish() const {
  if (verify_) CASK_RETURN_IF_ERROR(CheckChecksum(entry_, crc_));
  if (has_other_bytes_) return absl::DataLossError("a bool is neither 0 nor 1");
  return absl::OkStatus();
}

absl::Status CheckChecksum(const CheckpointEntry& entry, uint32_t found) {
  const uint32_t masked = MaskCrc32c(found);
  if (masked == entry.masked_crc32c) return absl::OkStatus();
  return MarkWrongChecksum(
      absl::DataLossError(absl::StrCat("its checksum is ", absl::Hex(masked, absl::kZeroPad8), ", stored is ",
                                       absl::Hex(entry.masked_crc32c, absl::kZeroPad8))));
}

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
    if (internal::WasReplaced(*index_)) {
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

absl::Status DataFiles::Read(const ByteSource& file, const CheckpointEntry& entry, bool verify,
                             absl::Span<char> out) const {
  ByteChecker checker(entry, verify);
  if (options_.strategy == ReadStrategy::kMap && !out.empty()) {
    absl::StatusOr<RefPtr<TensorBuffer>> mapped = file.Map(entry.offset, out.size());
    if (!absl::IsUnimplemented(mapped.status())) {
      CASK_RETURN_IF_ERROR(mapped.status());
      checker.Copy((*mapped)->bytes(), out.data());
      return checker.Finish();
    }
  }
  const size_t chunk_bytes = checker.idle()                                 ? out.size()
                             : options_.strategy == ReadStrategy::kParallel ? kParallelChunkBytes
                                                                            : kChunkBytes;
  for (size_t done = 0; done < out.size();) {
    const absl::Span<char> chunk = out.subspan(done, chunk_bytes);
    CASK_RETURN_IF_ERROR(file.ReadAt(entry.offset + done, chunk));
    checker.Check(absl::string_view(chunk.data(), chunk.size()));
    done += chunk.size();
  }
  return checker.Finish();
}

}  // namespace tensorcask::checkpoint
