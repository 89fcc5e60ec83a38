#include "tensorcask/serialize/checkpoint/index_walk.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::checkpoint {
namespace {

absl::Status CheckDataFile(const std::string& path, uint64_t used_bytes, FileSystem* files) {
  const absl::StatusOr<FileInfo> info = DescribeFile(path, files);
  if (absl::IsNotFound(info.status())) {
    return absl::DataLossError(absl::StrCat(path, ": is missing, though the index names it"));
  }
  CASK_RETURN_IF_ERROR(info.status());
  if (info->type != FileInfo::Type::kRegular) return absl::DataLossError(absl::StrCat(path, ": is not a regular file"));
  if (info->size_bytes >= used_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": has ", info->size_bytes, " bytes; the index names ", used_bytes));
}

// The index, and that all data files are there.
absl::StatusOr<IndexHeader> CheckStructure(const std::string& prefix, FileSystem* files, const DecodeLimits& limits) {
  CASK_ASSIGN_OR_RETURN(const WalkedIndex index,
                        WalkIndex(prefix, files, limits, [](absl::string_view, absl::string_view, const IndexEntry&) {
                          return absl::OkStatus();
                        }));
  for (int shard = 0; shard < index.header.num_shards; ++shard) {
    if (index.used_bytes.count(shard) != 0) continue;
    CASK_RETURN_IF_ERROR(CheckDataFile(DataPath(prefix, shard, index.header.num_shards), 0, files));
  }
  return index.header;
}

}  // namespace

absl::StatusOr<WalkedIndex> WalkEntries(
    const std::string& prefix, FileSystem* files, const DecodeLimits& limits,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view, const IndexEntry&)> fn) {
  ReadOptions read;
  read.file_system = files;
  const std::string path = IndexPath(prefix);
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, read));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<const BundleIndex> bundle, BundleIndex::Open(file, limits));
  CASK_RETURN_IF_ERROR(bundle->ForEachEntry([](const CheckpointEntry&) { return absl::OkStatus(); }));
  WalkedIndex index;
  index.header = bundle->header();
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> header, bundle->table().Find(""));
  index.header_value = std::string(header.value_or(""));
  IndexEntry entry;
  DecodeQuota memory = bundle->NewQuota();
  const auto take = [&](uint32_t, absl::string_view key, absl::string_view value) -> absl::Status {
    CASK_RETURN_IF_ERROR(DecodeEntry(value, index.header.num_shards, limits, &entry));  // as ForEachEntry did
    if (entry.entry.slices.empty()) {
      uint64_t& used = index.used_bytes[entry.entry.shard];
      used = std::max(used, entry.entry.offset + entry.entry.stored_bytes);  // below 2^63, DecodeEntry has seen to that
    }
    return fn(key, value, entry);
  };
  CASK_RETURN_IF_ERROR(bundle->ForEach(&memory, take));
  return index;
}

absl::StatusOr<WalkedIndex> WalkIndex(
    const std::string& prefix, FileSystem* files, const DecodeLimits& limits,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view, const IndexEntry&)> fn) {
  CASK_ASSIGN_OR_RETURN(WalkedIndex index, WalkEntries(prefix, files, limits, fn));
  CASK_RETURN_IF_ERROR(CheckDataFiles(prefix, index.header.num_shards, index.used_bytes, files));
  return index;
}

absl::Status CheckDataFiles(const std::string& prefix, int num_shards, const std::map<int32_t, uint64_t>& used_bytes,
                            FileSystem* files) {
  for (const auto& [shard, used] : used_bytes) {
    CASK_RETURN_IF_ERROR(CheckDataFile(DataPath(prefix, shard, num_shards), used, files));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DamagedDataFiles(const std::string& prefix, const WalkedIndex& index,
                                                          FileSystem* files) {
  std::vector<std::string> damaged;
  for (const auto& [shard, used] : index.used_bytes) {
    std::string path = DataPath(prefix, shard, index.header.num_shards);
    const absl::Status status = CheckDataFile(path, used, files);
    if (absl::IsDataLoss(status)) {
      damaged.push_back(std::move(path));
    } else {
      CASK_RETURN_IF_ERROR(status);
    }
  }
  return damaged;
}

absl::StatusOr<std::string> BasePrefixOf(const std::string& prefix, FileSystem* files) {
  ReadOptions read;
  read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(IndexPath(prefix), read));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<const BundleIndex> index, BundleIndex::Open(file, DecodeLimits()));
  const std::string& base = index->header().base;
  return base.empty() ? "" : PrefixBeside(prefix, base);
}

absl::Status CheckWhole(const std::string& prefix, bool everything, FileSystem* files) {
  DecodeLimits limits;
  // No limit on all tensors together: they are only verified, one at a time.
  limits.max_file_decoded_bytes = std::numeric_limits<int64_t>::max();
  if (!everything) {
    CASK_ASSIGN_OR_RETURN(const IndexHeader header, CheckStructure(prefix, files, limits));
    if (header.base.empty()) return absl::OkStatus();
    const std::string base = PrefixBeside(prefix, header.base);
    const absl::Status whole = CheckStructure(base, files, limits).status();  // deltas have a depth of one
    if (!absl::IsNotFound(whole)) return whole.ok() ? whole : Annotate(whole, absl::StrCat(prefix, ": its base"));
    return absl::DataLossError(absl::StrCat(prefix, ": is stored as deltas to ", base, ", which is missing"));
  }
  CheckpointReaderOptions options;
  options.read.file_system = files;
  options.limits = limits;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  absl::Status first;
  const absl::StatusOr<CheckpointCounts> counts =
      reader.VerifyAll([&](const CheckpointDamage& damage) { first.Update(damage.status); });
  first.Update(counts.status());
  if (!absl::IsFailedPrecondition(first)) return first;
  // The base that the index names is missing, or another one.
  CASK_ASSIGN_OR_RETURN(const std::string base, BasePrefixOf(prefix, files));
  return base.empty() ? first : absl::DataLossError(first.message());
}

}  // namespace tensorcask::checkpoint
