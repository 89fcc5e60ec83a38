#include "tensorcask/serialize/archive/archive_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/sliced_blocks.h"
#include "tensorcask/serialize/archive/internal/value_table.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {

const FileMetadata& ArchiveReader::file_metadata() const {
  static const FileMetadata* const kEmpty = new FileMetadata();
  return *kEmpty;
}

absl::StatusOr<ValueTree> ArchiveReader::Values() const { return archive::TreeOfMetadata(file_metadata()); }

ValueTree ArchiveReader::MetadataBesideValues() const {
  if (values_have_metadata() || file_metadata().empty()) return {};
  return archive::TreeOfMetadata(file_metadata());
}

namespace {

absl::Status HasNoArrays(const ArchiveReader& archive) {
  return absl::InternalError(
      absl::StrCat(archive.path(), ": the format ", archive.format(), " leaves no arrays in the file"));
}

}  // namespace

absl::StatusOr<ValueTree> ArchiveReader::ReadFileArray(const FileArray& /*array*/) const { return HasNoArrays(*this); }

absl::StatusOr<std::string> ArchiveReader::ReadFileArrayBytes(const FileArray& /*array*/) const {
  return HasNoArrays(*this);
}

absl::Status ArchiveReader::ForEachEntry(absl::FunctionRef<absl::Status(const ArchiveEntry&)> fn) const {
  for (const ArchiveEntry& entry : entries()) CASK_RETURN_IF_ERROR(fn(entry));
  return absl::OkStatus();
}

absl::StatusOr<const ArchiveEntry*> ArchiveReader::Find(absl::string_view name) const {
  const std::vector<ArchiveEntry>& all = entries();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name, [](const ArchiveEntry& entry, absl::string_view key) { return entry.name < key; });
  if (found != all.end() && found->name == name) return &*found;
  std::vector<absl::string_view> names;
  names.reserve(all.size());
  for (const ArchiveEntry& entry : all) names.push_back(entry.name);
  return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name), archive::DidYouMean(name, names)));
}

absl::StatusOr<std::vector<std::string>> ArchiveReader::OptimizerSlots() const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": the format ", format(),
                                                 " does not say which tensors are slots of an optimizer; only "
                                                 "checkpoints of TensorFlow do. Exclude them by name"));
}

void ArchiveReader::PlanRead(const ArchiveEntry& entry, ReadPlan* plan) const { plan->Add(StepOf(&entry)); }

ReadPlan::Step ArchiveReader::StepOf(const ArchiveEntry* entry) const {
  if (entry == nullptr || !entry->offset.has_value() || entry->stored_bytes == 0 || !entry->read_status.ok()) return {};
  return {SourceOf(*entry), *entry->offset, entry->stored_bytes};
}

absl::Status ArchiveReader::CheckReadable(const ArchiveEntry& entry) const {
  return MarkDamagedPart(Annotate(entry.read_status, absl::StrCat(path(), ": tensor ", Quoted(entry.name))));
}

absl::Status ArchiveReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(name));
  return Annotate(internal::CopyFromHost(tensor, out), absl::StrCat(path(), ": tensor ", Quoted(name)));
}

absl::Status ArchiveReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const Tensor part, ReadSlice(name, slice));
  return Annotate(internal::CopyFromHost(part, out), absl::StrCat(path(), ": tensor ", Quoted(name)));
}

absl::StatusOr<Tensor> ArchiveReader::Map(absl::string_view name) const { return Read(name); }

absl::StatusOr<DecodedTensor> ArchiveReader::ReadWithMetadata(absl::string_view name) const {
  DecodedTensor tensor;
  CASK_ASSIGN_OR_RETURN(tensor.metadata, Metadata(name));
  CASK_ASSIGN_OR_RETURN(tensor.view, Read(name));
  return tensor;
}

absl::StatusOr<DecodedTensor> ArchiveReader::ReadIgnoringBadMetadata(absl::string_view name) const {
  DecodedTensor bare;
  CASK_ASSIGN_OR_RETURN(bare.view, Read(name));
  return bare;
}

absl::StatusOr<TensorMetadata> ArchiveReader::Metadata(absl::string_view name) const {
  CASK_RETURN_IF_ERROR(Find(name).status());
  return TensorMetadata();
}

absl::StatusOr<std::unique_ptr<ElementStream>> ArchiveReader::OpenStream(const ArchiveEntry& /*entry*/) const {
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TensorBlocks>> ArchiveReader::ReadBlocks(const ArchiveEntry& entry,
                                                                        uint64_t block_bytes) const {
  if (!entry.reads_in_blocks) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(entry.name));
    return archive::MakeTensorBlocks(tensor, block_bytes);
  }
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<ElementStream> stream, OpenStream(entry));
  if (stream != nullptr) return archive::MakeStreamedBlocks(entry, block_bytes, std::move(stream));
  return archive::MakeSlicedBlocks(
      entry, block_bytes,
      [this, name = entry.name](const TensorSlice& slice, TensorView* out) { return ReadSliceInto(name, slice, out); });
}

std::string archive::NoChecksums(absl::string_view path, int64_t count) {
  return absl::StrCat(path, ": ", count, count == 1 ? " tensor has" : " tensors have",
                      " no checksum; the structure of the file was checked");
}

absl::StatusOr<TensorCounts> ArchiveReader::VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const {
  constexpr uint64_t kBlockBytes = uint64_t{8} << 20;
  constexpr int64_t kMaxNotes = 8;
  TensorCounts counts;
  int64_t without_checksum = 0;
  const std::vector<ArchiveEntry>& all = entries();
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(all.size(), [&](size_t number) { return StepOf(&all[number]); });
  for (size_t position = 0; position < order.size(); ++position) {
    const ArchiveEntry& entry = all[order[position]];
    const absl::Status status = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(CheckReadable(entry));
      if (entry.has_metadata) CASK_RETURN_IF_ERROR(Metadata(entry.name).status());
      CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, ReadBlocks(entry, kBlockBytes));
      while (true) {
        CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks->Next());
        if (!block.has_value()) return absl::OkStatus();
      }
    }();
    if (IsResourceFailure(status)) return status;
    if (status.ok()) {
      ++counts.whole;
      without_checksum += !has_names() && !entry.decoded_bytes;  // a message; records and payloads have one
    } else if (absl::IsUnimplemented(status)) {
      ++counts.not_checked;
      if (counts.not_checked <= kMaxNotes && !entry.read_status.ok()) counts.notes.emplace_back(status.message());
    } else {
      ++(absl::IsResourceExhausted(status) ? counts.past_limit : counts.damaged);
      report({entry.name, path(), entry.offset.value_or(0), status});
    }
  }
  if (without_checksum > 0) counts.notes.push_back(archive::NoChecksums(path(), without_checksum));
  return counts;
}

}  // namespace tensorcask
