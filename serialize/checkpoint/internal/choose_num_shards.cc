#include "tensorcask/serialize/checkpoint/internal/choose_num_shards.h"

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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

// The number of data files of the checkpoint at `prefix`; 0 if there is no index.
absl::StatusOr<int> NumShardsOf(const std::string& prefix, FileSystem* files) {
  ReadOptions read;
  read.file_system = files;
  absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(IndexPath(prefix), read);
  if (absl::IsNotFound(file.status())) return 0;
  CASK_RETURN_IF_ERROR(file.status());
  const DecodeLimits limits;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TableReader> index, TableReader::Open(*std::move(file), limits));
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> value, index->Find(""));
  if (!value.has_value()) return absl::DataLossError(absl::StrCat(IndexPath(prefix), ": has no header"));
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

}  // namespace

absl::StatusOr<int> ChooseNumShards(const std::string& prefix, int wanted, FileSystem* file_system) {
  std::set<int> taken;
  const absl::StatusOr<int> old = NumShardsOf(prefix, file_system);
  if (old.ok()) {
    taken.insert(*old);
  } else {
    CASK_ASSIGN_OR_RETURN(taken, NumShardsInNames(prefix, file_system));
  }
  for (int num_shards = wanted; num_shards <= kMaxShards; ++num_shards) {
    if (taken.count(num_shards) == 0) return num_shards;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(prefix, ": the checkpoint to overwrite has data files of all numbers of shards from ", wanted,
                   " to ", kMaxShards, "; save with fewer shards, or remove it first"));
}

absl::StatusOr<ReplacedFiles> ReplacedCheckpoint(const std::string& prefix, FileSystem* file_system) {
  CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, ReplacedFileAt(IndexPath(prefix), file_system));
  if (replaced.path.empty()) return replaced;
  const absl::StatusOr<int> num_shards = NumShardsOf(prefix, file_system);
  if (!num_shards.ok()) {
    replaced.notes.push_back(absl::StrCat(IndexPath(prefix),
                                          ": the old index cannot be read, so no data file is known "
                                          "to belong to it, and none is removed"));
    return replaced;
  }
  for (int shard = 0; shard < *num_shards; ++shard) {
    std::string path = DataPath(prefix, shard, *num_shards);
    CASK_ASSIGN_OR_RETURN(const bool exists, HasFileAt(path, file_system));
    if (exists) replaced.removed.push_back(std::move(path));
  }
  return replaced;
}

std::vector<std::string> NotesOnStrayFiles(const std::string& prefix, int num_shards, FileSystem* file_system) {
  std::vector<std::string> notes;
  const absl::StatusOr<int> chosen = ChooseNumShards(prefix, num_shards, file_system);
  if (!chosen.ok()) return notes;  // the save fails
  for (int shard = 0; shard < *chosen; ++shard) {
    const std::string path = DataPath(prefix, shard, *chosen);
    if (!HasFileAt(path, file_system).value_or(false)) continue;
    notes.push_back(absl::StrCat(path, ": no index counts this data file, and the new one replaces it"));
  }
  return notes;
}

}  // namespace tensorcask::checkpoint
