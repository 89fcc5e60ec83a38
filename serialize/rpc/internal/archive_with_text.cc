#include "tensorcask/serialize/rpc/internal/archive_with_text.h"

#include <string>
#include <utility>
#include <vector>

#include "tensorcask/serialize/rpc/internal/beside_tensors.h"

namespace tensorcask::rpc {
namespace {

class ArchiveWithText final : public ArchiveReader {
 public:
  ArchiveWithText(std::shared_ptr<const ArchiveReader> archive, FileMetadata file_metadata,
                  std::vector<std::string> notes)
      : archive_(std::move(archive)), file_metadata_(std::move(file_metadata)), notes_(std::move(notes)) {}

  absl::string_view format() const override { return archive_->format(); }
  const std::string& path() const override { return archive_->path(); }
  bool has_names() const override { return archive_->has_names(); }
  bool strides_only_permute() const override { return archive_->strides_only_permute(); }
  const std::vector<ArchiveEntry>& entries() const override { return archive_->entries(); }
  const FileMetadata& file_metadata() const override { return file_metadata_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> files() const override { return archive_->files(); }

  absl::StatusOr<Tensor> Read(absl::string_view name) const override { return archive_->Read(name); }
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override {
    return archive_->ReadInto(name, out);
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    return archive_->ReadSlice(name, slice);
  }
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const override {
    return archive_->ReadSliceInto(name, slice, out);
  }
  absl::StatusOr<Tensor> Map(absl::string_view name) const override { return archive_->Map(name); }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return archive_->ReadWithMetadata(name);
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    return archive_->ReadIgnoringBadMetadata(name);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override { return archive_->Metadata(name); }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override {
    return archive_->ReadBlocks(entry, block_bytes);
  }
  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    return archive_->VerifyAll(report);
  }

 private:
  const std::shared_ptr<const ArchiveReader> archive_;
  const FileMetadata file_metadata_;
  const std::vector<std::string> notes_;
};

}  // namespace

std::shared_ptr<const ArchiveReader> WithFileMetadata(std::shared_ptr<const ArchiveReader> archive,
                                                      FileMetadata file_metadata, std::vector<std::string> notes) {
  return std::make_shared<ArchiveWithText>(std::move(archive), std::move(file_metadata), std::move(notes));
}

std::shared_ptr<const ArchiveReader> WithValuesAsText(std::shared_ptr<const ArchiveReader> archive) {
  BesideTensors beside = FromArchive(*archive);
  std::vector<std::string> notes = NotesOf(*archive, beside);
  return std::make_shared<ArchiveWithText>(std::move(archive), std::move(beside.entries), std::move(notes));
}

}  // namespace tensorcask::rpc
