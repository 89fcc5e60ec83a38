#include "tensorcask/serialize/archive/formats/hdf5_format.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/hdf5/hdf5_reader.h"
#include "tensorcask/serialize/hdf5/keras_file.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// "a.h5" of a whole file, or what a .keras file has.
struct OpenFile {
  std::optional<Hdf5Reader> plain;
  std::optional<KerasFile> model;

  const Hdf5Reader& reader() const { return plain.has_value() ? *plain : model->weights; }
};

class Hdf5ArchiveReader final : public archive::ForwardingReader<Hdf5Reader> {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path, bool is_model,
                                                             const ArchiveReaderOptions& options,
                                                             const NpyFormatOptions& of_format) {
    Hdf5ReaderOptions read;
    read.read = options.read;
    read.limits = options.limits;
    read.dtype_of_opaque_elements = of_format.dtype_of_opaque_elements;
    read.listing = options.listing_or_new();
    OpenFile file;
    if (is_model) {
      CASK_ASSIGN_OR_RETURN(file.model, OpenKerasFile(path, read));
    } else {
      CASK_ASSIGN_OR_RETURN(file.plain, Hdf5Reader::Open(path, read));
    }
    std::vector<ArchiveEntry> entries;
    entries.reserve(file.reader().entries().size());
    for (const Hdf5Entry& stored : file.reader().entries()) {
      entries.push_back(Describe(stored));
      CASK_RETURN_IF_ERROR(Annotate(read.listing->Charge(EntryMemory(entries.back())), path));
    }
    FileMetadata metadata;
    if (is_model) metadata = file.model->texts;
    const Value values = file.reader().values();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values.entry(i).kind() != ValueKind::kText) continue;
      CASK_RETURN_IF_ERROR(
          Annotate(read.listing->Charge(values.key(i).text().size() + values.entry(i).text().size()), path));
      metadata.emplace(values.key(i).text(), values.entry(i).text());
    }
    return std::unique_ptr<ArchiveReader>(
        new Hdf5ArchiveReader(std::move(file), std::move(metadata), std::move(entries)));
  }

  absl::string_view format() const override { return "hdf5"; }
  const std::string& path() const override { return reader().path(); }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  const FileMetadata& file_metadata() const override { return metadata_; }
  bool has_types_of_metadata() const override { return true; }

  absl::StatusOr<ValueTree> Values() const override {
    ValueTree tree = reader().value_tree();
    if (!file_.model.has_value()) return tree;
    std::vector<std::pair<ValueTree::Id, ValueTree::Id>> all;
    for (const auto& [name, text] : file_.model->texts) {
      const ValueTree::Id key = tree.AddText(name);
      all.emplace_back(key, tree.AddText(text));
    }
    const Value attributes = reader().values();
    for (size_t i = 0; i < attributes.size(); ++i) all.emplace_back(attributes.key(i).id(), attributes.entry(i).id());
    tree.AddMap(all);
    return tree;
  }

  // Beside the elements of each tensor, the checksum of all weights in a .keras file.
  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    CASK_ASSIGN_OR_RETURN(TensorCounts counts, ArchiveReader::VerifyAll(report));
    if (!file_.model.has_value()) return counts;
    const absl::Status status = VerifyWeights(*file_.model);
    if (IsResourceFailure(status)) return status;
    if (!status.ok()) {
      ++counts.damaged_elsewhere;
      report({"", path(), file_.model->member.data_offset, status});
    }
    return counts;
  }

  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    return entry.offset.has_value() ? reader().source() : nullptr;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = reader().notes();
    if (file_.model.has_value()) notes.insert(notes.end(), file_.model->notes.begin(), file_.model->notes.end());
    return notes;
  }

 private:
  Hdf5ArchiveReader(OpenFile file, FileMetadata metadata, std::vector<ArchiveEntry> entries)
      : file_(std::move(file)), metadata_(std::move(metadata)), entries_(std::move(entries)) {}

  static ArchiveEntry Describe(const Hdf5Entry& stored) {
    ArchiveEntry entry;
    entry.name = stored.name;
    entry.dtype = stored.dtype;
    entry.shape = stored.shape;
    entry.read_status = stored.read_status;
    entry.encoding = absl::IsUnimplemented(stored.read_status) ? "unknown"
                     : !stored.read_status.ok()                ? "not readable"
                     : stored.is_filtered                      ? "deflated"
                     : stored.is_chunked                       ? "chunked"
                                                               : "plain";
    // A chunk is decoded as a whole: blocks would decode it again and again.
    entry.reads_in_blocks = stored.read_status.ok() && !stored.is_filtered;
    entry.stored_bytes = stored.stored_bytes;
    if (stored.is_filtered && stored.read_status.ok()) {
      entry.decoded_bytes = static_cast<uint64_t>(stored.shape.num_elements()) * ElementSize(stored.dtype);
    }
    entry.offset = stored.offset;
    if (stored.stored_bytes > 0) entry.storage_id = stored.storage_id;
    return entry;
  }

  const Hdf5Reader& reader() const { return file_.reader(); }
  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(Find(name).status());
    return Target{&reader(), name};
  }

  const OpenFile file_;
  const FileMetadata metadata_;
  const std::vector<ArchiveEntry> entries_;
};

}  // namespace

ArchiveTraits Hdf5ArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.is_written = false;
  return traits;
}

bool Hdf5ArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  return Hdf5Reader::LooksLikeHdf5(probe.head) || LooksLikeKerasFile(probe.head);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> Hdf5ArchiveFormat::Open(const std::string& path,
                                                                       const ArchiveReaderOptions& options) const {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  constexpr size_t kSignatureBytes = 4;
  char start[kSignatureBytes] = {};
  if (file->size_bytes() >= sizeof(start)) CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(start)));
  ArchiveReaderOptions same_file = options;
  same_file.read.source = file;
  return Hdf5ArchiveReader::Open(path, IsZip(absl::string_view(start, sizeof(start))), same_file, options_);
}

}  // namespace tensorcask
