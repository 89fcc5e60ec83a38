#include "tensorcask/serialize/archive/formats/torch_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/archive/formats/internal/shard_name.h"
#include "tensorcask/serialize/archive/formats/internal/sharded_reader.h"
#include "tensorcask/serialize/archive/formats/internal/slice_order.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/safetensors/model_index.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/serialize/torch/torch_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

class TorchArchiveReader final : public archive::ListedReader<TorchReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::shared_ptr<const ByteSource>& file,
                                                             const ArchiveReaderOptions& options,
                                                             const TorchFormatOptions& of_format,
                                                             std::vector<std::string> notes = {}) {
    const std::string& path = file->name();
    TorchReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.lenient = options.lenient;
    read.verify = options.verify_checksums;
    read.opaque_objects = of_format.opaque_objects;
    read.listing = options.listing_or_new();
    absl::StatusOr<TorchReader> reader = TorchReader::OpenSource(file, read);
    if (!reader.ok()) {
      std::string head(static_cast<size_t>(std::min<uint64_t>(file->size_bytes(), kContentHeadBytes)), '\0');
      CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(head.data(), head.size())));
      if (TorchReader::LooksLikeTorch(head)) return reader.status();
      return ExplainContent(reader.status(), *file, "torch");
    }
    std::vector<ArchiveEntry> entries;
    entries.reserve(reader->entries().size());
    for (const TorchEntry& stored : reader->entries()) {
      ArchiveEntry entry;
      entry.name = reader->has_names() ? stored.name : NameFromPath(path);
      entry.dtype = stored.dtype;
      entry.shape = stored.shape;
      entry.encoding = stored.encoding;
      entry.reads_in_blocks = stored.reads_in_blocks;
      entry.strides = stored.strides;
      entry.has_metadata = stored.has_metadata;
      entry.stored_bytes = stored.stored_bytes;
      entry.offset = stored.offset;
      entry.storage_id = stored.storage_id;
      entry.alias_of = stored.alias_of;
      entry.read_status = stored.read_status;
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(EntryMemory(entry)), path));
      entries.push_back(std::move(entry));
    }
    return std::unique_ptr<ArchiveReader>(
        new TorchArchiveReader(*std::move(reader), std::move(entries), std::move(notes)));
  }

  absl::string_view format() const override { return "torch"; }
  bool has_names() const override { return reader_.has_names(); }
  bool strides_only_permute() const override { return true; }
  const FileMetadata& file_metadata() const override { return reader_.metadata(); }
  absl::StatusOr<ValueTree> Values() const override { return reader_.Values(); }
  bool values_have_metadata() const override { return false; }

  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, ReadIgnoringBadMetadata(name));
    CASK_ASSIGN_OR_RETURN(tensor.metadata, Metadata(name));
    return tensor;
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const TorchEntry* const entry, Lookup(name));
    DecodedTensor tensor;
    CASK_ASSIGN_OR_RETURN(tensor.view, reader_.ReadView(entry->name));
    return tensor;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const TorchEntry* const entry, Lookup(name));
    return reader_.Metadata(entry->name);
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    CASK_RETURN_IF_ERROR(reader_.VerifyAll([&](const TorchDamage& damage) {
      ++(damage.tensor.empty() && has_names()       ? counts.damaged_elsewhere
         : absl::IsResourceExhausted(damage.status) ? counts.past_limit
                                                    : counts.damaged);
      report({has_names() ? damage.tensor : entries_[0].name, damage.file, damage.offset, damage.status});
    }));
    int64_t without_checksum = 0;
    for (const TorchEntry& entry : reader_.entries()) {
      const bool is_read = !absl::IsUnimplemented(entry.read_status);
      counts.not_checked += !is_read;
      without_checksum += is_read && !entry.has_checksum;
    }
    counts.whole = static_cast<int64_t>(entries_.size()) - counts.damaged - counts.past_limit - counts.not_checked;
    for (const std::string& note : notes()) counts.notes.push_back(absl::StrCat(path(), ": ", note));
    if (without_checksum > 0) counts.notes.push_back(archive::NoChecksums(path(), without_checksum));
    return counts;
  }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry&) const override { return reader_.source(); }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = reader_.notes();
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }
  std::vector<std::string> NotWritten() const override { return reader_.NotWritten(); }

 private:
  TorchArchiveReader(TorchReader reader, std::vector<ArchiveEntry> entries, std::vector<std::string> notes)
      : ListedReader(std::move(reader), std::move(entries)), notes_(std::move(notes)) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    CASK_ASSIGN_OR_RETURN(const TorchEntry* const stored, Lookup(entry.name));
    return reader_.OpenStream(stored->name);
  }

  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const TorchEntry* const entry, Lookup(name));
    return Target{&reader_, entry->name};
  }

  // The entries have one order.
  absl::StatusOr<const TorchEntry*> Lookup(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    return &reader_.entries()[static_cast<size_t>(entry - entries_.data())];
  }

  const std::vector<std::string> notes_;  // what the name of the file says
};

// ---- Models in several files ----------------------------------------------------------------------------------------

// "pytorch_model.bin.index.json", "pytorch_model.bin.index.fp16.json".
bool IsTorchIndexName(absl::string_view name) {
  return absl::EndsWith(name, ".json") &&
         (absl::StrContains(name, ".bin.index.") || absl::StrContains(name, ".pt.index."));
}

bool IsTorchIndex(absl::string_view path, absl::string_view head, uint64_t file_bytes) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(head), "{") &&
         (IsTorchIndexName(path) || LookAtContent(head, file_bytes).format == "torch");
}

// Why a file of the index cannot be read, if that hides its tensors alone.
bool HidesItsTensors(const absl::Status& status) {
  return !IsResourceFailure(status) &&
         (absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
          absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenTorchIndex(const ByteSource& file, ArchiveReaderOptions options,
                                                              const TorchFormatOptions& of_format) {
  const std::string& path = file.name();
  if (file.size_bytes() > LimitOf(options.limits.max_message_bytes)) {
    return Annotate(PastLimit(absl::StrCat("has ", file.size_bytes(), " bytes"), "max_message_bytes",
                              options.limits.max_message_bytes),
                    path);
  }
  std::string text(static_cast<size_t>(file.size_bytes()), '\0');
  CASK_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(text.data(), text.size())));
  CASK_ASSIGN_OR_ANNOTATE(safetensors::ModelIndex index, safetensors::ParseModelIndex(text, options.limits), path);
  if (options.listing == nullptr) options.listing = std::make_shared<ListingBudget>(options.limits);
  options.listing->AddIndex(text.size());
  CASK_ASSIGN_OR_RETURN(const ContainedFolder folder,
                        ContainedFolder::Of(path, ContainedFolder::Links::kContained, options.read));
  archive::ShardedParts parts;
  parts.path = path;
  parts.format = "torch";
  parts.metadata = std::move(index.metadata);
  parts.notes = std::move(index.notes);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : index.files) names.insert(shard);
  for (const std::string& name : names) {
    const absl::StatusOr<std::shared_ptr<const ByteSource>> shard = folder.Open(name);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
        shard.ok() ? TorchArchiveReader::Open(*shard, options, of_format)
                   : absl::StatusOr<std::unique_ptr<ArchiveReader>>(shard.status());
    if (reader.ok()) {
      parts.shards.push_back({name, *std::move(reader), absl::OkStatus(), folder.PathOf(name)});
    } else if (absl::IsNotFound(reader.status())) {
      parts.shards.push_back(
          {name, nullptr, absl::DataLossError(absl::StrCat(folder.PathOf(name), ": is missing; ", path, " lists it")),
           folder.PathOf(name)});
    } else if (HidesItsTensors(reader.status())) {
      parts.shards.push_back({name, nullptr, absl::DataLossError(reader.status().message()), folder.PathOf(name)});
    } else {
      return reader.status();
    }
  }
  parts.index = std::move(index.files);
  return archive::MakeShardedReader(std::move(parts), options.listing.get());
}

// ---- Writing --------------------------------------------------------------------------------------------------------

class TorchArchiveWriter final : public ArchiveWriter {
 public:
  TorchArchiveWriter(std::string path, const ArchiveWriterOptions& options, TorchWriter writer)
      : path_(std::move(path)),
        file_system_(options.file_system),
        values_(options.nested),
        writer_(std::move(writer)) {}

  absl::Status Declare(const ArchiveEntry& entry) override {
    CASK_RETURN_IF_ERROR(Annotate(TorchWriter::CheckTensor(entry.name, entry.dtype), path_));
    if (!entry.alias_of.empty()) aliases_.emplace_back(entry.name, entry.alias_of);
    return absl::OkStatus();
  }
  absl::StatusOr<ReplacedFiles> Start() override { return ReplacedFileAt(path_, file_system_); }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view, tensor.metadata);
  }
  bool writes_in_blocks(const ArchiveEntry& /*entry*/) const override { return true; }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    CASK_ASSIGN_OR_RETURN(const archive::SliceOrder::Step step, order_.Next(entry, slice, elements));
    if (step.is_first) {
      CASK_RETURN_IF_ERROR(writer_.Begin(entry.name, entry.dtype, entry.shape, metadata));
    }
    return writer_.Append(elements);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(order_.CheckComplete());
    for (const auto& [name, target] : aliases_) CASK_RETURN_IF_ERROR(writer_.AddAlias(name, target));
    if (values_ != nullptr) CASK_RETURN_IF_ERROR(writer_.SetValues(values_->tree, values_->names));
    CASK_RETURN_IF_ERROR(writer_.Finish());
    return BytesOfFile(path_, file_system_);
  }

  const std::string path_;
  FileSystem* const file_system_;
  const std::shared_ptr<const ArchiveValues> values_;
  TorchWriter writer_;
  archive::SliceOrder order_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // and their tensors
};

}  // namespace

ArchiveTraits TorchArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.strides = true;
  traits.strides_only_permute = true;
  traits.file_metadata = true;
  traits.nested = true;
  traits.aliases = true;
  traits.is_edited = true;
  return traits;
}

bool TorchArchiveFormat::HoldsDType(DType dtype) const { return TorchWriter::CheckTensor("", dtype).ok(); }

bool TorchArchiveFormat::HoldsMetadata(const TensorMetadata& metadata) const {
  return TorchWriter::HoldsMetadata(metadata);
}

absl::StatusOr<std::vector<MetadataNotHeld>> TorchArchiveFormat::CheckMetadata(const MetadataForFile& metadata) const {
  return archive::MetadataRefusedBy(metadata, [](const std::string& key, const std::string& value) {
    const bool is_text = internal::IsUtf8(key) && internal::IsUtf8(value);
    return is_text ? absl::OkStatus() : absl::InvalidArgumentError("is not UTF-8");
  });
}

absl::Status TorchArchiveFormat::CheckEntry(const ArchiveEntry& entry) const {
  if (IsQuantized(entry.dtype) && !entry.has_metadata) {
    return absl::UnimplementedError(
        absl::StrCat(DTypeName(entry.dtype), " elements need a scale in PyTorch, and the tensor has no attributes"));
  }
  return TorchWriter::CheckTensor(entry.name, entry.dtype);
}

absl::Status TorchArchiveFormat::CheckValue(Value value) const { return TorchWriter::CheckValue(value); }

bool TorchArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  return probe.file != nullptr &&
         (TorchReader::LooksLikeTorch(probe.head) || IsTorchIndex(probe.path, probe.head, probe.file->size_bytes()));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> TorchArchiveFormat::Open(const std::string& path,
                                                                        const ArchiveReaderOptions& options) const {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  std::string head(static_cast<size_t>(std::min<uint64_t>(file->size_bytes(), kContentHeadBytes)), '\0');
  CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(head.data(), head.size())));
  if (IsTorchIndex(path, head, file->size_bytes())) return OpenTorchIndex(*file, options, options_);
  return TorchArchiveReader::Open(file, options, options_, archive::NotesOfName(path));
}

std::vector<std::string> TorchArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                                    FileSystem* file_system) const {
  std::vector<std::string> found = ArchiveFormat::FindIn(folder, names, file_system);
  for (const std::string& name : names) {
    if (IsTorchIndexName(name)) found.push_back(absl::StrCat(folder, "/", name));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> TorchArchiveFormat::Create(const std::string& path,
                                                                          const ArchiveWriterOptions& options) const {
  constexpr uint64_t kMostAlignment = 16384;
  TorchWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.alignment = static_cast<uint32_t>(std::min(options.alignment, kMostAlignment));
  write.metadata = options.file_metadata;
  CASK_ASSIGN_OR_RETURN(TorchWriter writer, TorchWriter::Create(path, write));
  return std::unique_ptr<ArchiveWriter>(new TorchArchiveWriter(path, options, std::move(writer)));
}

absl::StatusOr<FileEditResult> TorchArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                        const FileEditOptions& options) const {
  ArchiveReaderOptions read;
  read.read.file_system = options.file_system;
  read.limits = options.limits;
  read.lenient = options.lenient;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> source, Open(path, read));
  if (source->files().size() > 1) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": a model in several files of torch.save is not edited; convert it to one file"));
  }
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, read.read));
  FileMetadata metadata = source->file_metadata();
  bool is_metadata = edits.renames.empty() && edits.removed.empty();
  for (const std::string& key : edits.unset_metadata) is_metadata = metadata.erase(key) > 0 && is_metadata;
  for (const auto& [key, value] : edits.set_metadata) metadata[key] = value;
  char magic[2] = {};
  CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(magic)));
  if (is_metadata && absl::string_view(magic, sizeof(magic)) == "PK") {
    CASK_ASSIGN_OR_RETURN(FileEditResult result, EditTorchMetadata(file, metadata, options));
    result.notes = source->notes();
    return result;
  }
  // All else takes a new pickle.
  const std::vector<std::string> lost = source->NotWritten();
  if (!lost.empty() && options.output.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": a file with these changes would lack ", absl::StrJoin(lost, ", "),
                     "; FileEditOptions::output writes another file and keeps this one"));
  }
  ConvertOptions convert;
  convert.exclude.assign(edits.removed.begin(), edits.removed.end());
  convert.rename = [&](absl::string_view name) -> absl::StatusOr<std::string> {
    const auto renamed = edits.renames.find(std::string(name));
    return renamed == edits.renames.end() ? std::string(name) : renamed->second;
  };
  convert.set_metadata = edits.set_metadata;
  convert.unset_metadata = edits.unset_metadata;
  convert.dry_run = options.dry_run;
  uint64_t planned_bytes = 0;  // the size of the elements; a dry run copies none
  convert.planned = [&](const ConversionPlan& plan, const ReplacedFiles& /*replaced*/) { planned_bytes = plan.bytes; };
  if (options.progress) {
    convert.progress = [&](int64_t /*tensors*/, uint64_t bytes) { return options.progress(bytes); };
  }
  ArchiveWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.output.empty();
  FileEditResult result;
  result.notes = source->notes();
  result.notes.push_back(
      "the new file has new dicts and tensors: classes like OrderedDict and Parameter, and devices, are not kept");
  result.files.push_back(options.output.empty() ? path : options.output);
  CASK_ASSIGN_OR_RETURN(const ConvertReport report,
                        ConvertArchives({source.get()}, result.files[0], *this, convert, write));
  result.copied_bytes = options.dry_run ? planned_bytes : report.bytes;
  result.written_bytes = report.file_bytes - std::min(report.file_bytes, report.bytes);
  result.notes.insert(result.notes.end(), report.notes.begin(), report.notes.end());
  for (const ConvertLoss& loss : report.losses) result.notes.push_back(loss.message);
  return result;
}

}  // namespace tensorcask
