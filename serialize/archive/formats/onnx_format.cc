#include "tensorcask/serialize/archive/formats/onnx_format.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/onnx/dtypes.h"
#include "tensorcask/serialize/onnx/edit_model.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/onnx/onnx_writer.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

class OnnxArchiveReader final : public archive::ListedReader<OnnxReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options,
                                                             const OnnxFormatOptions& of_format) {
    OnnxReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.lenient = options.lenient;
    read.constants = of_format.constants;
    read.follow_links = of_format.follow_links;
    CASK_ASSIGN_OR_RETURN(OnnxReader reader, OnnxReader::Open(path, read));
    const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
    std::string made_name;  // for a tensor in a file of its own, which has none there
    std::vector<ArchiveEntry> entries;
    entries.reserve(reader.entries().size());
    for (const OnnxEntry& stored : reader.entries()) {
      ArchiveEntry entry = Describe(reader, stored);
      if (entry.name.empty() && reader.kind() == OnnxReader::Kind::kTensor) {
        made_name = NameFromPath(path);
        entry.name = made_name;
      }
      listing->AddIndex(entry.name.size());
      CASK_RETURN_IF_ERROR(Annotate(listing->Charge(EntryMemory(entry)), path));
      entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name < b.name; });
    SetStorageIds(&entries);
    return std::unique_ptr<ArchiveReader>(new OnnxArchiveReader(std::move(reader), std::move(entries),
                                                                made_name.empty(), options.read.source == nullptr));
  }

  absl::string_view format() const override { return "onnx"; }
  bool has_names() const override { return has_names_; }
  const FileMetadata& file_metadata() const override { return reader_.metadata(); }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    CASK_ASSIGN_OR_RETURN(const OnnxCounts found, reader_.VerifyAll([&](const OnnxDamage& damage) {
      if (damage.is_of_file) ++counts.damaged_elsewhere;
      report({damage.tensor, damage.file, damage.offset, damage.status});
    }));
    counts.not_checked = found.not_checked;
    counts.past_limit = found.past_limit;
    counts.whole = found.verified + found.without_checksum;
    counts.damaged = static_cast<int64_t>(entries_.size()) - counts.whole - counts.not_checked - counts.past_limit;
    counts.notes = reader_.notes();
    if (found.without_checksum > 0) counts.notes.push_back(archive::NoChecksums(path(), found.without_checksum));
    return counts;
  }
  std::string base_path() const override { return is_file_ ? path() : ""; }
  std::vector<std::string> files() const override {
    std::vector<std::string> files = {reader_.path()};
    files.insert(files.end(), reader_.side_files().begin(), reader_.side_files().end());
    return files;
  }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    const OnnxEntry* const stored = reader_.FindEntry(Stored(entry.name));
    return stored != nullptr ? reader_.SourceOf(*stored) : nullptr;
  }
  int num_shards() const override { return 1 + static_cast<int>(reader_.side_files().size()); }

 private:
  OnnxArchiveReader(OnnxReader reader, std::vector<ArchiveEntry> entries, bool has_names, bool is_file)
      : ListedReader(std::move(reader), std::move(entries)), has_names_(has_names), is_file_(is_file) {}

  // Tensors whose elements begin at one byte of a side file have one number. Those in the model have their own.
  static void SetStorageIds(std::vector<ArchiveEntry>* entries) {
    absl::flat_hash_map<std::pair<int, uint64_t>, uint64_t> first;  // by side file and offset
    for (size_t i = 0; i < entries->size(); ++i) {
      ArchiveEntry& entry = (*entries)[i];
      if (entry.stored_bytes == 0 || !entry.offset.has_value()) continue;
      entry.storage_id = i;
      if (entry.shard.value_or(0) == 0) continue;
      entry.storage_id = first.try_emplace({*entry.shard, *entry.offset}, i).first->second;
    }
  }

  static ArchiveEntry Describe(const OnnxReader& reader, const OnnxEntry& stored) {
    ArchiveEntry entry;
    entry.name = stored.name;
    entry.dtype = stored.dtype;
    entry.shape = stored.shape;
    entry.encoding = absl::IsDataLoss(stored.read_status)      ? "not readable"
                     : !stored.read_status.ok()                ? "unknown"
                     : stored.form == OnnxEntry::Form::kPacked ? "packed"
                     : stored.form == OnnxEntry::Form::kValues ? "values"
                                                               : "plain";
    entry.reads_in_blocks = stored.read_status.ok() && stored.form == OnnxEntry::Form::kPlain;
    entry.read_status = stored.read_status;
    entry.stored_bytes = stored.stored_bytes;
    if (stored.read_status.ok()) entry.offset = stored.offset;
    if (!reader.side_files().empty()) entry.shard = stored.side_file_number;
    return entry;
  }

  // The name in the file of the tensor that the list calls `name`.
  absl::string_view Stored(absl::string_view name) const { return has_names() ? name : absl::string_view(); }
  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    return Target{&reader_, Stored(name)};
  }

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    return reader_.OpenStream(Stored(entry.name));
  }

  const bool has_names_;
  const bool is_file_;  // false: bytes in memory
};

class OnnxArchiveWriter final : public ArchiveWriter {
 public:
  OnnxArchiveWriter(FileSystem* file_system, OnnxWriter writer)
      : file_system_(file_system), writer_(std::move(writer)) {}

  absl::Status Declare(const ArchiveEntry& entry) override {
    return writer_.Declare(entry.name, entry.dtype, entry.shape);
  }
  absl::StatusOr<ReplacedFiles> Start() override { return writer_.Start(); }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view);
  }
  bool writes_in_blocks(const ArchiveEntry& entry) const override { return OnnxWriter::WritesSlices(entry.dtype); }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    return writes_in_blocks(entry) ? writer_.AddSlice(entry.name, slice, elements)
                                   : ArchiveWriter::AddSlice(entry, metadata, slice, elements);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(writer_.Finish());
    uint64_t bytes = 0;
    for (const std::string& path : writer_.files()) bytes += BytesOfFile(path, file_system_);
    return bytes;
  }

  FileSystem* const file_system_;
  OnnxWriter writer_;
};

constexpr absl::string_view kTensorExtension = ".pb";

}  // namespace

ArchiveTraits OnnxArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.file_metadata = true;
  traits.strings = true;
  traits.needs_base = true;
  traits.is_edited = true;
  return traits;
}

bool OnnxArchiveFormat::HoldsDType(DType dtype) const {
  for (int64_t data_type = 1; OnnxDType(data_type) != DType::kInvalid; ++data_type) {
    if (OnnxDType(data_type) == dtype) return true;
  }
  return false;
}

absl::StatusOr<std::vector<MetadataNotHeld>> OnnxArchiveFormat::CheckMetadata(const MetadataForFile& metadata) const {
  const bool is_tensor = absl::EndsWithIgnoreCase(metadata.file.path, kTensorExtension);
  std::vector<MetadataNotHeld> not_held;
  FileMetadata of_base;  // which stays
  if (is_tensor) {
    // Has no base.
  } else if (!options_.base_model.empty()) {
    OnnxReaderOptions read;
    read.read.file_system = metadata.file.file_system;
    CASK_ASSIGN_OR_RETURN(const OnnxReader base, OnnxReader::Open(options_.base_model, read));
    of_base = base.metadata();
  } else if (metadata.source != nullptr) {
    of_base = metadata.source->file_metadata();
  } else {
    return not_held;  // Create says that a base is missing
  }
  std::set<std::string> left_out;  // what says something about another file alone
  for (const auto& [key, value] : metadata.of_sources) {
    const bool is_of_other = archive::IsFrameworkNote(key, value) || (is_tensor && OnnxReader::IsFieldKey(key));
    if (!is_of_other || of_base.count(key) != 0) continue;
    left_out.insert(key);
    not_held.push_back({key, absl::OkStatus()});
  }
  const auto check = [&](const std::string& key, const std::string& value) -> absl::Status {
    if (left_out.count(key) != 0) return absl::OkStatus();
    if (is_tensor) return absl::InvalidArgumentError("a file with one tensor of ONNX has no metadata");
    const auto old = of_base.find(key);
    if (old != of_base.end() && old->second == value) return absl::OkStatus();
    if (old != of_base.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model that the new one is made of has the value ", Quoted(old->second), ", which stays"));
    }
    if (OnnxReader::IsFieldKey(key)) {
      return absl::InvalidArgumentError(
          "is a field of models of ONNX, and the model that the new one is made of lacks it");
    }
    const bool is_utf8 = internal::IsUtf8(key) && internal::IsUtf8(value);
    return is_utf8 ? absl::OkStatus() : absl::InvalidArgumentError("is not UTF-8, which texts of ONNX are");
  };
  for (MetadataNotHeld& one : archive::MetadataRefusedBy(metadata, check)) not_held.push_back(std::move(one));
  for (const std::string& key : metadata.unset) {
    if (of_base.count(key) == 0) continue;
    not_held.push_back({key, absl::InvalidArgumentError("the model that the new one is made of has it, and it stays")});
  }
  return not_held;
}

bool OnnxArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  return probe.file != nullptr &&
         OnnxReader::LooksLikeOnnx(*probe.file, /*also_tensors=*/absl::EndsWithIgnoreCase(probe.path, ".pb"));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OnnxArchiveFormat::Open(const std::string& path,
                                                                       const ArchiveReaderOptions& options) const {
  return OnnxArchiveReader::Open(path, options, options_);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> OnnxArchiveFormat::Create(const std::string& path,
                                                                         const ArchiveWriterOptions& options) const {
  OnnxWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.constants = options_.constants;
  write.use_side_file = options_.side_file.has_value();
  write.side_file = options_.side_file.value_or("");
  const bool is_tensor = absl::EndsWithIgnoreCase(path, kTensorExtension);
  const std::string& base = options_.base_model.empty() ? options.source_path : options_.base_model;
  if (!is_tensor && base.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": a model of ONNX has more than tensors: it is made of another model, whose initializers "
                     "they replace (--replace-in); a file NAME.pb holds one tensor alone"));
  }
  CASK_ASSIGN_OR_RETURN(OnnxWriter writer,
                        is_tensor ? OnnxWriter::CreateTensor(path, write) : OnnxWriter::CreateModel(path, base, write));
  for (const auto& [key, value] : options.file_metadata) CASK_RETURN_IF_ERROR(writer.AddMetadata(key, value));
  return std::unique_ptr<ArchiveWriter>(new OnnxArchiveWriter(options.file_system, std::move(writer)));
}

absl::StatusOr<FileEditResult> OnnxArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                       const FileEditOptions& options) const {
  return onnx::EditModel(path, edits, options);
}

}  // namespace tensorcask
