#include "tensorcask/serialize/rpc/internal/merged_archive.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

class MergedArchive final : public ArchiveReader {
 public:
  explicit MergedArchive(std::vector<PrefixedArchive> archives) : archives_(std::move(archives)) {}

  absl::Status Merge() {
    struct Named {
      std::string name;
      Origin origin;
    };
    std::vector<Named> all;
    for (const PrefixedArchive& archive : archives_) {
      AddMetadata(archive);
      for (const ArchiveEntry& entry : archive.archive->entries()) {
        if (entry.read_status.ok()) {
          all.push_back({absl::StrCat(archive.prefix, entry.name), {archive.archive.get(), &entry}});
        }
      }
    }
    AddTypes(types_, &file_metadata_);
    std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0 && all[i].name == all[i - 1].name) {
        return absl::AlreadyExistsError(absl::StrCat("two tensors are called ", Quoted(all[i].name)));
      }
      ArchiveEntry entry = *all[i].origin.entry;
      entry.name = all[i].name;
      if (all[i].origin.archive->strides_only_permute()) entry.strides.clear();
      entry.alias_of.clear();
      entry.storage_id.reset();
      entries_.push_back(std::move(entry));
      origins_.push_back(all[i].origin);
    }
    return absl::OkStatus();
  }

  absl::string_view format() const override { return "merged"; }
  const std::string& path() const override { return archives_[0].archive->path(); }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  const FileMetadata& file_metadata() const override { return file_metadata_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(name));
    return origin.archive->Read(origin.entry->name);
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(name));
    return origin.archive->ReadSlice(origin.entry->name, slice);
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(name));
    return RowMajorIfOnlyPermuted(origin, origin.archive->ReadWithMetadata(origin.entry->name));
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(name));
    return RowMajorIfOnlyPermuted(origin, origin.archive->ReadIgnoringBadMetadata(origin.entry->name));
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(name));
    return origin.archive->Metadata(origin.entry->name);
  }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override {
    CASK_ASSIGN_OR_RETURN(const Origin origin, OriginOf(entry.name));
    return origin.archive->ReadBlocks(*origin.entry, block_bytes);
  }

 private:
  struct Origin {
    const ArchiveReader* archive;
    const ArchiveEntry* entry;
  };

  // The first value of a key counts. One table has the types of all values.
  void AddMetadata(const PrefixedArchive& archive) {
    BesideTensors beside = FromArchive(*archive.archive);
    ValueTypes types = TakeTypes(&beside.entries);
    for (auto& [key, value] : beside.entries) {
      const std::string name = absl::StrCat(archive.prefix, key);
      const auto [first, is_new] = file_metadata_.emplace(name, value);
      const auto type = types.find(key);
      if (is_new && type != types.end()) types_.emplace(name, std::move(type->second));
      if (is_new || first->second == value) continue;
      notes_.push_back(absl::StrCat(archive.archive->path(), ": the metadata ", Quoted(name), " is ", Quoted(value),
                                    " and not served; that of an earlier file, ", Quoted(first->second), ", is"));
    }
    const std::vector<std::string> notes = NotesOf(*archive.archive, beside);
    notes_.insert(notes_.end(), notes.begin(), notes.end());
  }

  absl::StatusOr<Origin> OriginOf(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    return origins_[static_cast<size_t>(entry - entries_.data())];
  }

  static absl::StatusOr<DecodedTensor> RowMajorIfOnlyPermuted(const Origin& origin,
                                                              absl::StatusOr<DecodedTensor> tensor) {
    if (tensor.ok() && origin.archive->strides_only_permute()) {
      CASK_ASSIGN_OR_RETURN(tensor->view, tensor->view.Contiguous());
    }
    return tensor;
  }

  const std::vector<PrefixedArchive> archives_;
  std::vector<ArchiveEntry> entries_;
  std::vector<Origin> origins_;  // for entries_, in the same order
  FileMetadata file_metadata_;
  ValueTypes types_;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArchiveReader>> MergeArchives(std::vector<PrefixedArchive> archives) {
  if (archives.empty()) return absl::InvalidArgumentError("there is no archive to serve");
  auto merged = std::make_unique<MergedArchive>(std::move(archives));
  CASK_RETURN_IF_ERROR(merged->Merge());
  return std::unique_ptr<ArchiveReader>(std::move(merged));
}

}  // namespace tensorcask::rpc
