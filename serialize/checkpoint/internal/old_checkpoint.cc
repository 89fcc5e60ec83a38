#include "tensorcask/serialize/checkpoint/internal/old_checkpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

// The number of data files that the index says.
absl::StatusOr<int> NumShardsOf(std::shared_ptr<const ByteSource> file) {
  const std::string path = file->name();
  const DecodeLimits limits;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TableReader> index, TableReader::Open(std::move(file), limits));
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> value, index->Find(""));
  if (!value.has_value()) return absl::DataLossError(absl::StrCat(path, ": has no header"));
  CASK_ASSIGN_OR_RETURN(const IndexHeader header, DecodeHeader(*value, limits));
  return header.num_shards;
}

// The numbers NNNNN in the names PREFIX.data-SSSSS-of-NNNNN of existing data files of `prefix`.
absl::StatusOr<std::set<int>> NumShardsInNames(const std::string& prefix, FileSystem* files) {
  const std::string folder = FolderOf(prefix);
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder, files));
  const std::string base = prefix.substr(prefix.rfind('/') + 1);  // npos + 1 is 0
  std::set<int> found;
  for (const std::string& name : names) {
    const std::optional<DataName> data = ParseDataName(name);
    if (data.has_value() && data->prefix == base) found.insert(data->num_shards);
  }
  return found;
}

// False where the file system cannot tell the file from others.
bool HasKnownId(const ByteSource& file) {
  const std::optional<FileInfo> info = DescribeOpenFile(file);
  return info.has_value() && info->id.is_known();
}

}  // namespace

OldCheckpoint::OldCheckpoint(std::string prefix, FileSystem* file_system, Found found)
    : prefix_(std::move(prefix)), file_system_(file_system), found_(std::move(found)) {}

absl::StatusOr<OldCheckpoint> OldCheckpoint::Open(const std::string& prefix, FileSystem* file_system) {
  CASK_ASSIGN_OR_RETURN(Found found, Look(prefix, file_system));
  return OldCheckpoint(prefix, file_system, std::move(found));
}

absl::StatusOr<OldCheckpoint::Found> OldCheckpoint::Look(const std::string& prefix, FileSystem* file_system) {
  ReadOptions read;
  read.file_system = file_system;
  Found found;
  absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(IndexPath(prefix), read);
  if (absl::IsNotFound(file.status())) return found;
  if (file.ok()) found.index = *std::move(file);
  const absl::StatusOr<int> num_shards = found.index != nullptr ? NumShardsOf(found.index) : file.status();
  found.is_readable = num_shards.ok();
  if (found.is_readable) {
    found.num_shards = *num_shards;
    found.taken.insert(found.num_shards);
  } else {
    CASK_ASSIGN_OR_RETURN(found.taken, NumShardsInNames(prefix, file_system));
  }
  return found;
}

absl::StatusOr<int> OldCheckpoint::ChooseNumShards(int wanted) const {
  for (int num_shards = wanted; num_shards <= kMaxShards; ++num_shards) {
    if (found_.taken.count(num_shards) == 0) return num_shards;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(prefix_, ": the checkpoint to overwrite has data files of all numbers of shards from ", wanted,
                   " to ", kMaxShards, "; save with fewer shards, or remove it first"));
}

absl::Status OldCheckpoint::CheckUnchanged() const {
  bool changed = false;
  if (found_.index != nullptr && HasKnownId(*found_.index)) {
    if (!WasReplaced(*found_.index)) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(changed, HasFileAt(IndexPath(prefix_), file_system_));
  } else {
    // What matters is whether names are needed now that were not needed before.
    CASK_ASSIGN_OR_RETURN(const Found now, Look(prefix_, file_system_));
    changed = !std::includes(found_.taken.begin(), found_.taken.end(), now.taken.begin(), now.taken.end());
  }
  if (!changed) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      IndexPath(prefix_), ": was replaced by another save since this one began, which therefore changes nothing"));
}

absl::StatusOr<ReplacedFiles> OldCheckpoint::Replaced(int num_shards) const {
  CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, ReplacedFileAt(IndexPath(prefix_), file_system_));
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::string path = DataPath(prefix_, shard, num_shards);
    if (!HasFileAt(path, file_system_).value_or(false)) continue;
    replaced.notes.push_back(absl::StrCat(path, ": no index counts this data file, and the new one replaces it"));
  }
  if (replaced.path.empty()) return replaced;
  if (!found_.is_readable) {
    replaced.notes.push_back(absl::StrCat(IndexPath(prefix_),
                                          ": the old index cannot be read, so no data file is known "
                                          "to belong to it, and none is removed"));
    return replaced;
  }
  for (int shard = 0; shard < found_.num_shards; ++shard) {
    std::string path = DataPath(prefix_, shard, found_.num_shards);
    CASK_ASSIGN_OR_RETURN(const bool exists, HasFileAt(path, file_system_));
    if (exists) replaced.removed.push_back(std::move(path));
  }
  return replaced;
}

}  // namespace tensorcask::checkpoint
