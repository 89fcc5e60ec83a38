#include "tensorcask/serialize/archive/formats/gguf_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
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
      return ValueToJson(value).value();
    default:
      return std::nullopt;
  }
}

class GgufArchiveReader final : public ArchiveReader {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options) {
    GgufReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.blocks_as_bytes = options.blocks_as_bytes;
    read.listing = options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
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
      ArchiveEntry entry;
      entry.name = stored.name;
      entry.dtype = stored.dtype;
      entry.shape = stored.shape;
      entry.encoding = stored.is_block ? std::string(stored.type) : "plain";
      entry.reads_in_blocks = true;
      entry.stored_bytes = stored.stored_bytes;
      if (stored.is_block && !options.blocks_as_bytes) {
        entry.decoded_bytes = static_cast<uint64_t>(stored.shape.num_elements()) * ElementSize(stored.dtype);
      }
      if (reader.num_shards() > 1) entry.shard = stored.shard;
      entry.offset = stored.offset;
      entry.read_status = stored.read_status;
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(EntryMemory(entry)), path));
      entries.push_back(std::move(entry));
    }
    return std::unique_ptr<ArchiveReader>(
        new GgufArchiveReader(std::move(reader), std::move(metadata), std::move(entries)));
  }

  absl::string_view format() const override { return "gguf"; }
  const std::string& path() const override { return reader_.path(); }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  const FileMetadata& file_metadata() const override { return metadata_; }
  absl::StatusOr<ValueTree> Values() const override { return reader_.value_tree(); }
  absl::StatusOr<ValueTree> ReadFileArray(const FileArray& array) const override { return reader_.ReadArray(array); }

  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    return reader_.Read(name);
  }
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override { return reader_.ReadInto(name, out); }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    return reader_.ReadSlice(name, slice);
  }
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const override {
    return reader_.ReadSliceInto(name, slice, out);
  }
  absl::StatusOr<Tensor> Map(absl::string_view name) const override { return reader_.Map(name); }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    int64_t odd_padding = 0;
    for (const ArchiveEntry& entry : entries_) {
      bool zero_padding = true;
      const absl::Status status = reader_.Verify(entry.name, &zero_padding);
      if (IsResourceFailure(status)) return status;
      odd_padding += zero_padding ? 0 : 1;
      if (status.ok()) {
        ++counts.whole;
      } else {
        ++counts.damaged;
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

  std::vector<std::string> files() const override {
    std::vector<std::string> files;
    for (int shard = 0; shard < reader_.num_shards(); ++shard) files.push_back(reader_.ShardPath(shard));
    return files;
  }
  int num_shards() const override { return reader_.num_shards(); }
  std::vector<std::string> notes() const override { return reader_.notes(); }

 private:
  GgufArchiveReader(GgufReader reader, FileMetadata metadata, std::vector<ArchiveEntry> entries)
      : reader_(std::move(reader)), metadata_(std::move(metadata)), entries_(std::move(entries)) {}

  const GgufReader reader_;
  const FileMetadata metadata_;
  const std::vector<ArchiveEntry> entries_;
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
  traits.is_written = false;
  return traits;
}

bool GgufArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  return probe.file != nullptr && GgufReader::LooksLikeGguf(probe.head);
}

std::vector<std::string> GgufArchiveFormat::FindIn(const std::string& folder,
                                                   absl::Span<const std::string> names) const {
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
  return GgufArchiveReader::Open(path, options);
}

}  // namespace tensorcask
