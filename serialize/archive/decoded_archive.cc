#include "tensorcask/serialize/archive/decoded_archive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/internal/sliced_blocks.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

class DecodedArchive final : public ArchiveReader {
 public:
  DecodedArchive(absl::string_view format, std::string path, std::vector<NamedRecord> tensors, bool has_names)
      : format_(format), path_(std::move(path)), has_names_(has_names) {
    std::sort(tensors.begin(), tensors.end(),
              [](const NamedRecord& a, const NamedRecord& b) { return a.entry.name < b.entry.name; });
    for (NamedRecord& tensor : tensors) {
      entries_.push_back(std::move(tensor.entry));
      tensors_.push_back(std::move(tensor.tensor));
    }
  }

  absl::string_view format() const override { return format_; }
  const std::string& path() const override { return path_; }
  bool has_names() const override { return has_names_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(name));
    return tensor->view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor->view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(name));
    CASK_RETURN_IF_ERROR(tensor->metadata_status);
    return *tensor;
  }
  absl::StatusOr<DecodedTensor> ReadWithReadableMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(name));
    return *tensor;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(name));
    CASK_RETURN_IF_ERROR(tensor->metadata_status);
    return tensor->metadata;
  }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor* const tensor, Lookup(entry.name));
    return archive::MakeTensorBlocks(tensor->view, block_bytes);
  }

 private:
  absl::StatusOr<const DecodedTensor*> Lookup(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(CheckReadable(*entry));
    return &tensors_[entry - entries_.data()];
  }

  const std::string format_;
  const std::string path_;
  const bool has_names_;
  std::vector<ArchiveEntry> entries_;
  std::vector<DecodedTensor> tensors_;  // of entries_
};

}  // namespace

std::unique_ptr<ArchiveReader> MakeDecodedArchive(absl::string_view format, std::string path,
                                                  std::vector<NamedRecord> tensors, bool has_names) {
  return std::make_unique<DecodedArchive>(format, std::move(path), std::move(tensors), has_names);
}

}  // namespace tensorcask
