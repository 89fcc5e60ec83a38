#include "tensorcask/serialize/archive/formats/gguf_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/gguf/edit_file.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/gguf/gguf_writer.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_text.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// A value as text for FileMetadata: text as it is, numbers and bools as JSON; nullopt for all else.
std::optional<std::string> MetadataText(Value value) {
  switch (value.kind()) {
    case ValueKind::kText:
      return std::string(value.text());
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kUint:
    case ValueKind::kFloat:
      return ValueText(value);
    default:
      return std::nullopt;
  }
}

class GgufArchiveReader final : public archive::ListedReader<GgufReader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options,
                                                             const GgufFormatOptions& of_format) {
    GgufReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.blocks_as_bytes = of_format.blocks_as_bytes;
    read.listing = options.listing_or_new();
    CASK_ASSIGN_OR_RETURN(GgufReader reader, GgufReader::Open(path, read));
    FileMetadata metadata;
    const Value values = reader.values();
    for (size_t i = 0; i < values.size(); ++i) {
      std::optional<std::string> text = MetadataText(values.entry(i));
      if (!text) continue;
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(values.key(i).text().size() + text->size()), path));
      metadata.emplace(values.key(i).text(), *std::move(text));
    }
    std::vector<ArchiveEntry> entries;
    entries.reserve(reader.entries().size());
    for (const GgufEntry& stored : reader.entries()) {
      entries.push_back(EntryOf(reader, stored));
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(EntryMemory(entries.back())), path));
    }
    return std::unique_ptr<ArchiveReader>(
        new GgufArchiveReader(std::move(reader), std::move(metadata), std::move(entries)));
  }

  absl::string_view format() const override { return "gguf"; }
  const FileMetadata& file_metadata() const override { return metadata_; }
  bool has_types_of_metadata() const override { return true; }
  absl::StatusOr<ValueTree> Values() const override { return reader_.value_tree(); }
  absl::StatusOr<ValueTree> ReadFileArray(const FileArray& array) const override { return reader_.ReadArray(array); }
  absl::StatusOr<std::string> ReadFileArrayBytes(const FileArray& array) const override {
    return reader_.ReadArrayBytes(array);
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    int64_t odd_padding = 0;
    ReadPlan plan;
    const StepOrder order = plan.StartSteps(entries_.size(), [&](size_t number) { return StepOf(&entries_[number]); });
    for (size_t position = 0; position < order.size(); ++position) {
      const ArchiveEntry& entry = entries_[order[position]];
      bool zero_padding = true;
      const absl::Status status = reader_.Verify(entry.name, &zero_padding);
      if (IsResourceFailure(status)) return status;
      odd_padding += zero_padding ? 0 : 1;
      if (status.ok()) {
        ++counts.whole;
      } else {
        ++(absl::IsResourceExhausted(status) ? counts.past_limit : counts.damaged);
        report({entry.name, reader_.ShardPath(entry.shard.value_or(0)), entry.offset.value_or(0), status});
      }
    }
    counts.notes = reader_.notes();
    if (odd_padding > 0) {
      counts.notes.push_back(absl::StrCat(path(), ": the padding behind ", odd_padding,
                                          odd_padding == 1 ? " tensor is" : " tensors is", " not zero"));
    }
    if (counts.whole > 0) counts.notes.push_back(archive::NoChecksums(path(), counts.whole));
    return counts;
  }

  // Blocks of a big-endian file are not those of a file that is written.
  const ArchiveReader* AsStored() const override {
    if (reader_.big_endian()) return nullptr;
    std::call_once(stored_made_, [this] {
      GgufReader reader = reader_.BlocksAsBytes();
      std::vector<ArchiveEntry> entries;
      entries.reserve(entries_.size());
      for (const GgufEntry& stored : reader.entries()) entries.push_back(EntryOf(reader, stored));
      stored_.reset(new GgufArchiveReader(std::move(reader), {}, std::move(entries)));
    });
    return stored_.get();
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> files;
    for (int shard = 0; shard < reader_.num_shards(); ++shard) files.push_back(reader_.ShardPath(shard));
    return files;
  }
  int num_shards() const override { return reader_.num_shards(); }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    return reader_.ShardSource(entry.shard.value_or(0));
  }

 private:
  static ArchiveEntry EntryOf(const GgufReader& reader, const GgufEntry& stored) {
    ArchiveEntry entry;
    entry.name = stored.name;
    entry.dtype = stored.dtype;
    entry.shape = stored.shape;
    entry.encoding = stored.is_block ? std::string(stored.type) : "plain";
    entry.reads_in_blocks = true;
    entry.stored_bytes = stored.stored_bytes;
    entry.is_quantized = stored.is_block && stored.dtype == DType::kFloat32;
    if (entry.is_quantized) {
      entry.decoded_bytes = static_cast<uint64_t>(stored.shape.num_elements()) * ElementSize(stored.dtype);
    }
    if (reader.num_shards() > 1) entry.shard = stored.shard;
    entry.offset = stored.offset;
    entry.read_status = stored.read_status;
    return entry;
  }

  GgufArchiveReader(GgufReader reader, FileMetadata metadata, std::vector<ArchiveEntry> entries)
      : ListedReader(std::move(reader), std::move(entries)), metadata_(std::move(metadata)) {}

  const FileMetadata metadata_;
  mutable std::once_flag stored_made_;
  mutable std::unique_ptr<const GgufArchiveReader> stored_;  // what AsStored returns
};

class GgufArchiveWriter final : public ArchiveWriter {
 public:
  GgufArchiveWriter(std::string path, FileSystem* file_system, GgufWriter writer)
      : path_(std::move(path)), file_system_(file_system), writer_(std::move(writer)) {}

  // The values in their order, then the texts that replace none.
  absl::Status SetValues(const std::vector<FileValue>& values, FileMetadata texts) {
    for (const FileValue& value : values) {
      const auto text = texts.find(value.name);
      if (text == texts.end()) {
        CASK_RETURN_IF_ERROR(value.array_bytes != nullptr
                                 ? writer_.SetArray(value.name, value.value(), *value.array_bytes)
                                 : writer_.SetValue(value.name, value.value()));
      } else {
        CASK_RETURN_IF_ERROR(writer_.SetParsed(value.name, text->second, value.value()));
        texts.erase(text);
      }
    }
    for (const auto& [name, text] : texts) {
      CASK_RETURN_IF_ERROR(writer_.SetParsed(name, text));
    }
    return absl::OkStatus();
  }

  absl::Status Declare(const ArchiveEntry& entry) override {
    return IsBlocks(entry) ? writer_.DeclareBlocks(entry.name, entry.encoding, entry.shape)
                           : writer_.Declare(entry.name, entry.dtype, entry.shape);
  }
  absl::StatusOr<ReplacedFiles> Start() override { return writer_.Start(); }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view);
  }
  bool writes_in_blocks(const ArchiveEntry& /*entry*/) const override { return true; }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& /*metadata*/, const TensorSlice& slice,
                        const TensorView& elements) override {
    return writer_.AddSlice(entry.name, slice, elements);
  }

  // As the reader gives them with blocks_as_bytes.
  static bool IsBlocks(const ArchiveEntry& entry) {
    return entry.dtype == DType::kUint8 && GgufWriter::IsBlockType(entry.encoding);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(writer_.Finish());
    return BytesOfFile(path_, file_system_);
  }

  const std::string path_;
  FileSystem* const file_system_;
  GgufWriter writer_;
};

// "-00001-of-00003.gguf" at the end of the name of a part.
constexpr size_t kEndOfPart = 20;

bool IsPart(absl::string_view name) {
  constexpr absl::string_view kPattern = "-00000-of-00000.gguf";
  if (name.size() <= kEndOfPart) return false;
  const absl::string_view end = name.substr(name.size() - kEndOfPart);
  for (size_t i = 0; i < kEndOfPart; ++i) {
    const bool fits =
        kPattern[i] == '0' ? absl::ascii_isdigit(static_cast<unsigned char>(end[i])) : kPattern[i] == end[i];
    if (!fits) return false;
  }
  return true;
}

}  // namespace

ArchiveTraits GgufArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.file_metadata = true;
  traits.values = true;
  traits.is_edited = true;
  return traits;
}

bool GgufArchiveFormat::HoldsDType(DType dtype) const { return GgufWriter::HoldsDType(dtype); }

absl::StatusOr<std::vector<MetadataNotHeld>> GgufArchiveFormat::CheckMetadata(const MetadataForFile& metadata) const {
  std::vector<MetadataNotHeld> not_held;
  std::map<absl::string_view, const FileValue*> values;
  for (const FileValue& value : metadata.values) values.emplace(value.name, &value);
  for (const auto& [key, text] : metadata.of_sources) {
    const bool is_of_one_file = GgufWriter::IsOfOneFile(key, text) || archive::IsFrameworkNote(key, text);
    const absl::Status held = is_of_one_file ? absl::OkStatus() : GgufWriter::CheckParsed(key, text, std::nullopt);
    if (is_of_one_file || !held.ok()) not_held.push_back({key, held});
  }
  for (const auto& [key, text] : metadata.set) {
    const auto old = values.find(key);
    std::optional<Value> replaced;
    if (old != values.end()) replaced = old->second->value();
    absl::Status held = GgufWriter::CheckParsed(key, text, replaced);
    if (!held.ok()) not_held.push_back({key, std::move(held)});
  }
  return not_held;
}

bool GgufArchiveFormat::HoldsValue(absl::string_view name, Value value) const {
  return GgufWriter::CheckEntry(name, value).ok();
}

bool GgufArchiveFormat::HoldsEncoding(absl::string_view encoding) const { return GgufWriter::IsBlockType(encoding); }

absl::Status GgufArchiveFormat::CheckEntry(const ArchiveEntry& entry) const {
  return GgufArchiveWriter::IsBlocks(entry) ? GgufWriter::CheckBlocks(entry.name, entry.encoding, entry.shape)
                                            : GgufWriter::CheckTensor(entry.name, entry.dtype, entry.shape);
}

bool GgufArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  return probe.file != nullptr && GgufReader::LooksLikeGguf(probe.head);
}

std::vector<std::string> GgufArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                                   FileSystem* /*file_system*/) const {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!absl::EndsWithIgnoreCase(name, ".gguf")) continue;
    const bool is_later_part = IsPart(name) && !absl::StrContains(name.substr(name.size() - kEndOfPart), "-00001-of-");
    if (!is_later_part) found.push_back(absl::StrCat(folder, "/", name));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> GgufArchiveFormat::Open(const std::string& path,
                                                                       const ArchiveReaderOptions& options) const {
  return GgufArchiveReader::Open(path, options, options_);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> GgufArchiveFormat::Create(const std::string& path,
                                                                         const ArchiveWriterOptions& options) const {
  GgufWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  CASK_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create(path, write));
  auto archive = std::make_unique<GgufArchiveWriter>(path, options.file_system, std::move(writer));
  CASK_RETURN_IF_ERROR(archive->SetValues(options.values, options.file_metadata));
  return archive;
}

absl::StatusOr<FileEditResult> GgufArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                       const FileEditOptions& options) const {
  return gguf::EditGguf(path, edits, options);
}

}  // namespace tensorcask
