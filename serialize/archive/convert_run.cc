#include "tensorcask/serialize/archive/convert_archives.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/internal/conversion_losses.h"
#include "tensorcask/serialize/archive/internal/planned_values.h"
#include "tensorcask/serialize/archive/internal/read_ahead.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

absl::Status MetadataLost(const absl::Status& status) {
  return AppendToMessage(status, absl::StrCat(archive::kAllowLossHint, "leaves out metadata that cannot be read"));
}

absl::StatusOr<DecodedTensor> ReadAsStored(const ArchiveReader& reader, const ArchiveEntry& entry, bool allow_loss) {
  absl::StatusOr<DecodedTensor> tensor = reader.ReadWithMetadata(entry.name);
  if (tensor.ok() || !entry.has_metadata) return tensor;
  absl::StatusOr<DecodedTensor> readable = reader.ReadIgnoringBadMetadata(entry.name);
  if (!readable.ok()) return tensor;  // the elements cannot be read either
  if (allow_loss) return readable;
  return MetadataLost(tensor.status());
}

class Runner {
 public:
  Runner(const ConversionPlan& plan, const ConvertOptions& options, ArchiveWriter* writer)
      : plan_(plan), options_(options), writer_(writer) {}

  absl::StatusOr<ConvertReport> Run() {
    for (const ConversionItem& item : plan_.items) CASK_RETURN_IF_ERROR(writer_->Declare(item.to()));
    CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, writer_->Start());
    std::vector<std::vector<std::string>> read;
    for (const ArchiveReader* const source : plan_.sources) read.push_back(source->files());
    CASK_RETURN_IF_ERROR(CheckSourcesStay(replaced, read, plan_.file_system));
    CASK_RETURN_IF_ERROR(LookAtReplacedSource(replaced.path));
    if (options_.planned) options_.planned(plan_, replaced);
    report_.losses = plan_.losses;
    report_.notes = replaced.notes;
    report_.notes.insert(report_.notes.end(), plan_.notes.begin(), plan_.notes.end());
    const ArchiveTraits traits = plan_.target->traits();
    for (const ArchiveReader* const source : plan_.sources) {
      if (plan_.nested != nullptr || (traits.file_metadata && !traits.nested)) continue;
      CASK_ASSIGN_OR_RETURN(std::string note, archive::NoteNotCopied(*source, *plan_.target));
      if (!note.empty()) report_.notes.push_back(std::move(note));
    }
    for (const ArchiveReader* const source : plan_.sources) {
      const std::vector<std::string> lost = source->NotWritten();
      if (lost.empty()) continue;
      report_.notes.push_back(absl::StrCat(source->path(), ": the new file lacks ", absl::StrJoin(lost, ", ")));
    }
    if (options_.dry_run) {
      report_.removed = replaced.removed;
      return report_;
    }
    ReadPlan reads;
    for (const ConversionItem& item : plan_.items) {
      if (item.alias_of.empty() && !item.content.has_value()) item.source->PlanRead(*item.from, &reads);
    }
    reads.Start();
    // The order of declarations is the order of the file: see SelectEntries.
    archive::ReadAhead ahead(
        plan_.items.size(), kReadAheadBytes,
        [this](size_t i, archive::ReadAhead::Emit emit) { return Read(plan_.items[i], emit); },
        [this](size_t i) { return copies_in_blocks(plan_.items[i]); });
    CASK_RETURN_IF_ERROR(ahead.Run(options_.num_threads, [this](size_t i, archive::ReadPiece piece) {
      return Write(plan_.items[i], std::move(piece));
    }));
    CASK_RETURN_IF_ERROR(Progress());
    CASK_RETURN_IF_ERROR(CheckReplacedSource());
    CASK_RETURN_IF_ERROR(writer_->Finish());
    report_.tensors = static_cast<int64_t>(plan_.items.size());
    report_.file_bytes = writer_->file_bytes();
    report_.removed = writer_->removed_files();
    return report_;
  }

 private:
  FileId IdAt(const std::string& path) const { return DescribeFile(path, plan_.file_system).value_or(FileInfo()).id; }

  // If the new file replaces a source: what another writer saved there since the source was opened must not be lost.
  absl::Status LookAtReplacedSource(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    const FileId id = IdAt(path);
    for (const ArchiveReader* const source : plan_.sources) {
      if (source->files().empty() || !id.Is(IdAt(source->files()[0]))) continue;
      replaced_source_ = path;
      replaced_id_ = id;
      for (const ArchiveEntry& entry : source->entries()) {
        const std::shared_ptr<const ByteSource> file = source->SourceOf(entry);
        if (file != nullptr && file->name() == source->files()[0] && WasReplaced(*file)) return SourceWasReplaced();
        if (file != nullptr) break;
      }
    }
    return absl::OkStatus();
  }
  absl::Status CheckReplacedSource() const {
    if (replaced_source_.empty() || replaced_id_.Is(IdAt(replaced_source_))) return absl::OkStatus();
    return SourceWasReplaced();
  }
  absl::Status SourceWasReplaced() const {
    return absl::AbortedError(absl::StrCat(
        replaced_source_, ": was replaced by another writer since it was opened; this conversion changes nothing"));
  }

  bool copies_in_blocks(const ConversionItem& item) const {
    return item.alias_of.empty() && ElementBytes(*item.from) > options_.block_bytes && !item.has_strides() &&
           item.from->reads_in_blocks && writer_->writes_in_blocks(item.to());
  }

  absl::Status Read(const ConversionItem& item, archive::ReadAhead::Emit emit) const {
    if (!item.alias_of.empty()) return absl::OkStatus();
    if (copies_in_blocks(item)) return ReadInBlocks(item, emit);
    archive::ReadPiece piece;
    piece.bytes = ElementBytes(*item.from);
    if (item.content.has_value()) {
      piece.tensor.view = *item.content;
    } else if (item.has_strides()) {
      CASK_ASSIGN_OR_RETURN(piece.tensor, ReadAsStored(*item.source, *item.from, options_.allow_loss));
    } else if (item.keep_metadata) {
      CASK_ASSIGN_OR_RETURN(piece.tensor, ReadForCopy(*item.source, *item.from, options_.allow_loss));
    } else {
      CASK_ASSIGN_OR_RETURN(piece.tensor.view, item.source->Read(item.from->name));
    }
    if (item.dtype != item.from->dtype) {
      CASK_ASSIGN_OR_RETURN(piece.tensor.view, ConvertTo(piece.tensor.view, item.dtype));
    }
    if (item.drop_name) piece.tensor.metadata.name.clear();
    return emit(std::move(piece));
  }

  absl::Status ReadInBlocks(const ConversionItem& item, archive::ReadAhead::Emit emit) const {
    TensorMetadata metadata;
    if (item.keep_metadata) {
      absl::StatusOr<TensorMetadata> read = item.source->Metadata(item.from->name);
      if (!read.ok() && !options_.allow_loss) return MetadataLost(read.status());
      if (read.ok()) metadata = *std::move(read);
      if (item.drop_name) metadata.name.clear();
    }
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks,
                          item.source->ReadBlocks(*item.from, options_.block_bytes));
    while (true) {
      CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, blocks->Next());
      if (!block.has_value()) return absl::OkStatus();
      archive::ReadPiece piece;
      piece.is_block = true;
      piece.slice = block->slice;
      piece.tensor.metadata = metadata;
      piece.bytes = static_cast<uint64_t>(block->elements.num_elements()) * block->elements.element_size();
      piece.tensor.view = std::move(block->elements);
      if (item.dtype != item.from->dtype) {
        CASK_ASSIGN_OR_RETURN(piece.tensor.view, ConvertTo(piece.tensor.view, item.dtype));
      }
      CASK_RETURN_IF_ERROR(emit(std::move(piece)));
    }
  }

  absl::Status Write(const ConversionItem& item, archive::ReadPiece piece) {
    CASK_RETURN_IF_ERROR(Progress());
    if (piece.is_block) {
      CASK_RETURN_IF_ERROR(writer_->AddSlice(item.to(), piece.tensor.metadata, piece.slice, piece.tensor.view));
    } else {
      CASK_RETURN_IF_ERROR(writer_->Add(item.to(), piece.tensor));
    }
    read_bytes_ = CheckedAdd(read_bytes_, piece.bytes).value_or(UINT64_MAX);
    const TensorView& written = piece.tensor.view;
    const bool is_converted = item.dtype != item.from->dtype;
    const uint64_t bytes =
        is_converted ? static_cast<uint64_t>(written.num_elements()) * written.element_size() : piece.bytes;
    report_.bytes = CheckedAdd(report_.bytes, bytes).value_or(UINT64_MAX);
    if (last_ != &item) ++report_.tensors;
    last_ = &item;
    return absl::OkStatus();
  }

  absl::Status Progress() const {
    if (!options_.progress || options_.progress(report_.tensors, read_bytes_)) return absl::OkStatus();
    return absl::CancelledError("the conversion was cancelled");
  }

  const ConversionPlan& plan_;
  const ConvertOptions& options_;
  ArchiveWriter* const writer_;
  ConvertReport report_;
  uint64_t read_bytes_ = 0;
  const ConversionItem* last_ = nullptr;  // that was added, or a block of it
  std::string replaced_source_;           // the path of a source that the new file replaces; "": there is none
  FileId replaced_id_;                    // what is there
};

}  // namespace

absl::StatusOr<ConvertReport> RunConversion(const ConversionPlan& plan, const ConvertOptions& options,
                                            ArchiveWriter* writer) {
  return Runner(plan, options, writer).Run();
}

absl::StatusOr<DecodedTensor> ReadForCopy(const ArchiveReader& reader, const ArchiveEntry& entry, bool allow_loss) {
  CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, ReadAsStored(reader, entry, allow_loss));
  if (reader.strides_only_permute()) {
    CASK_ASSIGN_OR_RETURN(tensor.view, tensor.view.Contiguous());
  }
  return tensor;
}

}  // namespace tensorcask
