#include "tensorcask/serialize/archive/decoded_archive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/internal/sliced_blocks.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

class DecodedArchive final : public ArchiveReader {
 public:
  DecodedArchive(absl::string_view format, std::string path, KeptTensors kept, bool has_names)
      : format_(format), path_(std::move(path)), has_names_(has_names), kept_(std::move(kept)) {
    kept_.SortByName();
  }

  absl::string_view format() const override { return format_; }
  const std::string& path() const override { return path_; }
  bool has_names() const override { return has_names_; }
  const std::vector<ArchiveEntry>& entries() const override { return kept_.entries; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(name));
    CASK_ASSIGN_OR_RETURN(const TensorView part, tensor.view.Slice(slice));
    return part.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(name));
    CASK_RETURN_IF_ERROR(tensor.metadata_status);
    return tensor;
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(name));
    return tensor;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(name));
    CASK_RETURN_IF_ERROR(tensor.metadata_status);
    return tensor.metadata;
  }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Lookup(entry.name));
    return archive::MakeTensorBlocks(tensor.view, block_bytes);
  }

 private:
  absl::StatusOr<DecodedTensor> Lookup(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(CheckReadable(*entry));
    return kept_.tensors[static_cast<size_t>(entry - kept_.entries.data())].Get();
  }

  const std::string format_;
  const std::string path_;
  const bool has_names_;
  KeptTensors kept_;  // sorted by name
};

bool IsPlain(const DecodedTensor& tensor) {
  return tensor.view.IsContiguous() && tensor.metadata.IsDefault() && tensor.payload == nullptr &&
         tensor.metadata_status.ok();
}

}  // namespace

KeptTensor::KeptTensor(DecodedTensor tensor) {
  absl::StatusOr<Tensor> plain = IsPlain(tensor) ? tensor.view.ToTensor() : absl::UnknownError("");
  if (plain.ok()) {
    plain_ = *std::move(plain);
  } else {
    other_ = std::make_unique<const DecodedTensor>(std::move(tensor));
  }
}

DecodedTensor KeptTensor::Get() const {
  if (other_ != nullptr) return *other_;
  DecodedTensor tensor;
  tensor.view = TensorView(plain_);
  return tensor;
}

uint64_t KeptTensor::MemoryOf(const DecodedTensor& tensor) {
  return sizeof(KeptTensor) + (IsPlain(tensor) ? 0 : sizeof(DecodedTensor));
}

void KeptTensors::Add(NamedRecord record) {
  entries.push_back(std::move(record.entry));
  tensors.emplace_back(std::move(record.tensor));
}

void KeptTensors::SortByName() {
  const auto by_name = [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name < b.name; };
  if (std::is_sorted(entries.begin(), entries.end(), by_name)) return;
  std::vector<size_t> from(entries.size());  // place i gets what is at from[i]
  std::iota(from.begin(), from.end(), size_t{0});
  std::stable_sort(from.begin(), from.end(), [&](size_t a, size_t b) { return by_name(entries[a], entries[b]); });
  for (size_t start = 0; start < from.size(); ++start) {
    size_t i = start;
    while (from[i] != start) {
      std::swap(entries[i], entries[from[i]]);
      std::swap(tensors[i], tensors[from[i]]);
      i = std::exchange(from[i], i);
    }
    from[i] = i;
  }
}

std::unique_ptr<ArchiveReader> MakeDecodedArchive(absl::string_view format, std::string path, KeptTensors tensors,
                                                  bool has_names) {
  return std::make_unique<DecodedArchive>(format, std::move(path), std::move(tensors), has_names);
}

}  // namespace tensorcask
