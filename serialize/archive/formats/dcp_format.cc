#include "tensorcask/serialize/archive/formats/dcp_format.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/archive/formats/internal/joined_shards.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/dcp_reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr absl::string_view kExtension = ".distcp";

class DcpArchiveReader final : public archive::ListedReader<DcpReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options,
                                                             const TorchFormatOptions& of_format) {
    TorchReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.lenient = options.lenient;
    read.verify = options.verify_checksums;
    read.opaque_objects = of_format.opaque_objects;
    read.listing = options.listing_or_new();
    CASK_ASSIGN_OR_RETURN(DcpReader reader, DcpReader::Open(path, read));
    std::vector<ArchiveEntry> entries;
    entries.reserve(reader.entries().size());
    for (const DcpEntry& stored : reader.entries()) {
      ArchiveEntry entry;
      entry.name = stored.name;
      entry.dtype = stored.dtype;
      entry.shape = stored.shape;
      entry.encoding = absl::IsUnimplemented(stored.read_status) ? "unknown"
                       : !stored.read_status.ok()                ? "not readable"
                       : stored.boxes > 1                        ? "sliced"
                                                                 : "plain";
      entry.reads_in_blocks = stored.read_status.ok() && stored.reads_in_blocks;
      entry.pieces = stored.boxes > 1 ? stored.boxes : 0;
      entry.has_metadata = stored.has_metadata;
      entry.stored_bytes = stored.stored_bytes;
      entry.read_status = stored.read_status;
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(EntryMemory(entry)), reader.path()));
      entries.push_back(std::move(entry));
    }
    return std::unique_ptr<ArchiveReader>(new DcpArchiveReader(std::move(reader), std::move(entries)));
  }

  absl::string_view format() const override { return "dcp"; }
  absl::StatusOr<ValueTree> Values() const override { return reader_.Values(); }

  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    return reader_.Metadata(name);
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    CASK_RETURN_IF_ERROR(reader_.VerifyAll([&](const TorchDamage& damage) {
      ++(damage.tensor.empty()                      ? counts.damaged_elsewhere
         : absl::IsResourceExhausted(damage.status) ? counts.past_limit
                                                    : counts.damaged);
      report({damage.tensor, damage.file, damage.offset, damage.status});
    }));
    for (const ArchiveEntry& entry : entries_) counts.not_checked += absl::IsUnimplemented(entry.read_status);
    counts.whole = static_cast<int64_t>(entries_.size()) - counts.damaged - counts.past_limit - counts.not_checked;
    for (const std::string& note : notes()) counts.notes.push_back(absl::StrCat(path(), ": ", note));
    return counts;
  }

  std::vector<std::string> files() const override { return reader_.files(); }
  int num_shards() const override { return static_cast<int>(files().size()) - 1; }

 private:
  DcpArchiveReader(DcpReader reader, std::vector<ArchiveEntry> entries)
      : ListedReader(std::move(reader), std::move(entries)) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    return reader_.OpenStream(entry.name);
  }
};

// The safetensors files of `folder` that have parts of tensors, sorted; none if it has a .metadata or .distcp files.
std::vector<std::string> ShardsIn(const std::string& folder, FileSystem* files) {
  const absl::StatusOr<FileInfo> there = DescribeFile(folder, files, "open");
  if (!there.ok() || there->type != FileInfo::Type::kFolder) return {};
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder, files, "list");
  if (!names.ok()) return {};
  std::vector<std::string> shards;
  for (const std::string& name : *names) {
    if (name == kDcpMetadataFile || absl::EndsWith(name, kExtension)) return {};
    if (archive::IsShardName(name)) shards.push_back(name);
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

bool IsMetadataPath(absl::string_view path) {
  return path == kDcpMetadataFile || absl::EndsWith(path, absl::StrCat("/", kDcpMetadataFile));
}

}  // namespace

ArchiveTraits DcpArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.is_written = false;
  return traits;
}

bool DcpArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  if (probe.file != nullptr) {
    return absl::EndsWith(probe.path, kExtension) ||
           (IsMetadataPath(probe.path) && absl::StartsWith(probe.head, "\x80") &&
            absl::StrContains(probe.head, "torch.distributed.checkpoint"));
  }
  const std::string metadata = absl::StrCat(absl::StripSuffix(probe.path, "/"), "/", kDcpMetadataFile);
  const absl::StatusOr<FileInfo> there = DescribeFile(metadata, probe.file_system, "open");
  if (there.ok()) return there->type == FileInfo::Type::kRegular;
  const absl::StatusOr<FileInfo> folder = DescribeFile(probe.path, probe.file_system, "open");
  if (!folder.ok() || folder->type != FileInfo::Type::kFolder) return false;
  if (!ShardsIn(probe.path, probe.file_system).empty()) return true;
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(probe.path, probe.file_system, "list");
  return names.ok() && std::any_of(names->begin(), names->end(),
                                   [](const std::string& name) { return absl::EndsWith(name, kExtension); });
}

std::vector<std::string> DcpArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                                  FileSystem* /*file_system*/) const {
  if (std::find(names.begin(), names.end(), kDcpMetadataFile) == names.end()) return {};
  return {absl::StrCat(folder, "/", kDcpMetadataFile)};
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> DcpArchiveFormat::Open(const std::string& path,
                                                                      const ArchiveReaderOptions& options) const {
  if (options.read.source == nullptr) {
    const std::string folder(absl::StripSuffix(path, "/"));
    const std::vector<std::string> shards = ShardsIn(folder, options.read.file_system);
    if (!shards.empty()) return archive::OpenJoinedShards(folder, shards, options);
  }
  return DcpArchiveReader::Open(path, options, options_);
}

}  // namespace tensorcask
