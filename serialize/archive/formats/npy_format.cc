#include "tensorcask/serialize/archive/formats/npy_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_edit.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr uint64_t kStreamedBytes = uint64_t{8} << 20;  // the least size of a deflated tensor that is read in blocks

NpyReaderOptions ToReaderOptions(const ArchiveReaderOptions& options, const NpyFormatOptions& of_format) {
  NpyReaderOptions read;
  read.read = options.read;
  read.limits = options.limits;
  read.allow_trailing_bytes = options.lenient;
  read.allow_odd_bools = options.lenient;
  read.verify_checksums = options.verify_checksums;
  read.dtype_of_opaque_elements = of_format.dtype_of_opaque_elements;
  return read;
}

// A deflated member is inflated from its start, on one thread. Smaller ones are read whole, on several.
bool ReadsInBlocks(const NpyEntry& entry) {
  if (ElementSize(entry.dtype) == 0 || entry.shares_pass) return false;
  return !entry.deflated || (entry.data_bytes > kStreamedBytes && entry.field().empty());
}

ArchiveEntry ToArchiveEntry(const NpyEntry& from) {
  ArchiveEntry entry;
  entry.name = from.name;
  entry.dtype = from.dtype;
  entry.shape = from.shape;
  entry.encoding = !from.readable.ok() ? "not readable" : from.deflated ? "deflated" : "plain";
  entry.read_status = from.readable;
  entry.has_metadata = !from.metadata.IsDefault();
  entry.stored_bytes = from.stored_bytes;
  if (from.deflated) {
    entry.decoded_bytes = from.data_bytes;
  } else {
    entry.offset = from.data_offset;
  }
  if (from.fortran_order && from.shape.rank() > 1 && from.field().empty()) {
    int64_t stride = 1;
    for (const int64_t dim : from.shape.dims()) {
      entry.strides.push_back(stride);
      stride *= std::max<int64_t>(dim, 1);
    }
  }
  entry.reads_in_blocks = entry.strides.empty() && ReadsInBlocks(from);
  return entry;
}

// Reader is NpyReader or NpzReader.
template <typename Reader>
class NpyArchiveReader final : public archive::ForwardingReader<Reader> {
 public:
  static constexpr bool kIsNpz = std::is_same_v<Reader, NpzReader>;

  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                             const ArchiveReaderOptions& options,
                                                             const NpyFormatOptions& of_format, bool recover = false) {
    NpyReaderOptions read = ToReaderOptions(options, of_format);
    read.list_object_arrays = kIsNpz;
    read.list_damaged_members = true;
    read.recover_members = kIsNpz && recover;
    const std::shared_ptr<ListingBudget> listing = options.listing_or_new();
    read.listing = listing;
    CASK_ASSIGN_OR_RETURN(Reader reader, Reader::Open(path, read));
    const auto is_readable = [](const NpyEntry& entry) { return entry.readable.ok(); };
    if (!recover && std::none_of(reader.entries().begin(), reader.entries().end(), is_readable)) {
      read.listing = nullptr;  // it has been charged
      // An archive of nothing that can be read is refused, with the reason.
      read.list_object_arrays = false;
      read.list_damaged_members = false;
      CASK_RETURN_IF_ERROR(Reader::Open(path, read).status());
    }
    std::unique_ptr<NpyArchiveReader> archive(new NpyArchiveReader(path, std::move(reader), options.verify_checksums));
    CASK_RETURN_IF_ERROR(archive->List(listing.get()));
    return std::unique_ptr<ArchiveReader>(std::move(archive));
  }

  absl::string_view format() const override { return kIsNpz ? "npz" : "npy"; }
  const std::string& path() const override { return path_; }
  bool has_names() const override {  // fields have names
    return kIsNpz || reader_.entries().size() != 1 || !reader_.entries()[0].field().empty();
  }
  bool strides_only_permute() const override { return true; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry&) const override { return reader_.source(); }
  ReadPlan::Step StepOf(const ArchiveEntry* entry) const override {
    if (entry == nullptr || !entry->read_status.ok()) return {};
    const absl::StatusOr<const NpyEntry*> stored = Lookup(entry->name);
    // The fields of an array share its bytes.
    if (!stored.ok() || !(*stored)->field().empty()) return this->ArchiveReader::StepOf(entry);
    const FileRange range = reader_.RangeOf((*stored)->name);
    if (range.size_bytes == 0) return {};
    return {reader_.source(), range.offset, range.size_bytes};
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = reader_.notes();
    if constexpr (kIsNpz) {
      constexpr size_t kMaxNamed = 8;
      const std::vector<std::string>& others = reader_.other_members();
      for (size_t i = 0; i < std::min(others.size(), kMaxNamed); ++i) {
        notes.push_back(absl::StrCat("member ", Quoted(others[i]), " is not an array, and is not read"));
      }
      if (others.size() > kMaxNamed) {
        notes.push_back(absl::StrCat(others.size() - kMaxNamed, " more members are not arrays, and are not read"));
      }
    }
    return notes;
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const NpyEntry* const stored, Lookup(name));
    DecodedTensor tensor;
    tensor.metadata = stored->metadata;
    CASK_ASSIGN_OR_RETURN(tensor.view, reader_.ReadView(stored->name));
    return tensor;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const NpyEntry* const stored, Lookup(name));
    return stored->metadata;
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    std::set<std::string> damaged;
    std::set<std::string> not_checked;
    CASK_RETURN_IF_ERROR(reader_.VerifyAll([&](const NpyDamage& damage) {
      if (absl::IsUnimplemented(damage.status)) {
        not_checked.insert(damage.tensor);
        return;
      }
      if (!damage.is_tensor) {
        ++counts.damaged_elsewhere;
      } else if (damaged.insert(damage.tensor).second) {
        ++(absl::IsResourceExhausted(damage.status) ? counts.past_limit : counts.damaged);
      }
      report({damage.is_tensor ? EntryName(damage.tensor) : "", path_, 0, damage.status});
    }));
    for (size_t i = 0; i < entries_.size(); ++i) {
      const ArchiveEntry& entry = entries_[i];
      const NpyEntry& stored = reader_.entries()[stored_[i]];
      if (damaged.count(stored.name) != 0) continue;
      if (stored.readable.ok() && not_checked.count(stored.name) == 0) {
        ++counts.whole;
        continue;
      }
      constexpr int64_t kMaxNotes = 8;
      if (++counts.not_checked <= kMaxNotes && !stored.readable.ok()) {
        counts.notes.push_back(absl::StrCat(path_, ": tensor ", Quoted(entry.name), ": ", stored.readable.message()));
      }
    }
    if constexpr (!kIsNpz) {
      if (counts.whole > 0) counts.notes.push_back(archive::NoChecksums(path_, counts.whole));
    }
    for (const std::string& note : notes()) counts.notes.push_back(absl::StrCat(path_, ": ", note));
    return counts;
  }

 private:
  NpyArchiveReader(std::string path, Reader reader, bool verify)
      : path_(std::move(path)), reader_(std::move(reader)), verify_(verify) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(const ArchiveEntry& entry) const override {
    if constexpr (kIsNpz) {
      CASK_ASSIGN_OR_RETURN(const NpyEntry* const stored, Lookup(entry.name));
      absl::StatusOr<std::unique_ptr<ElementStream>> stream = reader_.OpenStream(stored->name);
      if (!absl::IsUnimplemented(stream.status()) || stored->deflated) return stream;
      if (verify_) CASK_RETURN_IF_ERROR(reader_.Verify(stored->name));  // slices are not verified
    }
    return nullptr;
  }

  absl::Status List(ListingBudget* budget) {
    const std::vector<NpyEntry>& stored = reader_.entries();
    stored_.resize(stored.size());
    for (size_t i = 0; i < stored.size(); ++i) stored_[i] = static_cast<uint32_t>(i);
    std::sort(stored_.begin(), stored_.end(), [&](uint32_t a, uint32_t b) { return stored[a].name < stored[b].name; });
    entries_.reserve(stored.size());
    for (const uint32_t i : stored_) {
      ArchiveEntry entry = ToArchiveEntry(stored[i]);
      if (!kIsNpz) entry.name = EntryName(stored[i].name);
      CASK_RETURN_IF_ERROR(Annotate(budget->Charge(EntryMemory(entry)), path_));
      entries_.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  // The array of an npy file has no name of its own.
  std::string EntryName(const std::string& name) const { return name.empty() && !kIsNpz ? NameFromPath(path_) : name; }

  absl::StatusOr<typename NpyArchiveReader::Target> TargetOf(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const NpyEntry* const stored, Lookup(name));
    return typename NpyArchiveReader::Target{&reader_, stored->name};
  }

  absl::StatusOr<const NpyEntry*> Lookup(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, this->Find(name));
    return &reader_.entries()[stored_[entry - entries_.data()]];
  }

  const std::string path_;
  const Reader reader_;
  const bool verify_;
  std::vector<ArchiveEntry> entries_;
  std::vector<uint32_t> stored_;  // the number of each in the file
};

NpyFormat ToNpyFormat(const ArchiveWriterOptions& options) {
  constexpr uint64_t kLeast = 64;
  constexpr uint64_t kMost = 16384;
  NpyFormat format;
  format.order = NpyOrder::kPreserve;
  format.store_opaquely = options.store_opaquely;
  format.alignment = static_cast<uint32_t>(std::clamp(options.alignment, kLeast, kMost));
  return format;
}

class NpyArchiveWriter final : public ArchiveWriter {
 public:
  NpyArchiveWriter(std::string path, FileSystem* file_system, NpyWriter writer)
      : path_(std::move(path)), file_system_(file_system), writer_(std::move(writer)) {}
  absl::StatusOr<ReplacedFiles> Start() override { return ReplacedFileAt(path_, file_system_); }
  absl::Status Add(const ArchiveEntry& /*entry*/, const DecodedTensor& tensor) override {
    return writer_.Add(tensor.view, tensor.metadata);
  }
  bool writes_in_blocks(const ArchiveEntry& /*entry*/) const override { return true; }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    return writer_.AddSlice(entry.shape, slice, elements, metadata);
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(writer_.Finish());
    return BytesOfFile(path_, file_system_);
  }
  const std::string path_;
  FileSystem* const file_system_;
  NpyWriter writer_;
};

class NpzArchiveWriter final : public ArchiveWriter {
 public:
  NpzArchiveWriter(std::string path, FileSystem* file_system, NpzWriter writer)
      : path_(std::move(path)), file_system_(file_system), writer_(std::move(writer)) {}
  absl::Status Declare(const ArchiveEntry& entry) override {
    const absl::Status apart =
        NpzWriter::CheckApart(entry.name, [this](const std::string& other) { return names_.count(other) != 0; });
    CASK_RETURN_IF_ERROR(Annotate(apart, absl::StrCat(path_, ": tensor ", Quoted(entry.name))));
    names_.insert(entry.name);
    return absl::OkStatus();
  }
  absl::StatusOr<ReplacedFiles> Start() override { return ReplacedFileAt(path_, file_system_); }
  absl::Status Add(const ArchiveEntry& entry, const DecodedTensor& tensor) override {
    return writer_.Add(entry.name, tensor.view, Options(tensor.metadata));
  }
  bool writes_in_blocks(const ArchiveEntry& /*entry*/) const override { return true; }
  absl::Status AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                        const TensorView& elements) override {
    return writer_.AddSlice(entry.name, entry.shape, slice, elements, Options(metadata));
  }

 private:
  absl::StatusOr<uint64_t> Publish() override {
    CASK_RETURN_IF_ERROR(writer_.Finish());
    return BytesOfFile(path_, file_system_);
  }
  static NpzAddOptions Options(const TensorMetadata& metadata) {
    NpzAddOptions options;
    options.metadata = metadata;
    return options;
  }

  const std::string path_;
  FileSystem* const file_system_;
  NpzWriter writer_;
  std::set<std::string> names_;  // of the tensors that were declared
};

ArchiveTraits NpyTraits() {
  ArchiveTraits traits;
  traits.strides = true;
  traits.strides_only_permute = true;
  traits.strings = true;
  traits.padded_strings = true;
  return traits;
}

}  // namespace

bool NumpyArchiveFormat::HoldsDType(DType dtype) const { return NpyWriter::HoldsDType(dtype); }
bool NumpyArchiveFormat::StoresAsRawBytes(DType dtype) const { return !HoldsDType(dtype) && IsFixedSize(dtype); }
bool NumpyArchiveFormat::HoldsMetadata(const TensorMetadata& metadata) const {
  TensorMetadata rest = metadata;
  rest.attributes.erase(kNpyDescrAttribute);
  return rest.IsDefault();
}
absl::Status NumpyArchiveFormat::CheckEntry(const ArchiveEntry& entry) const { return CheckNpyShape(entry.shape); }
absl::Status NumpyArchiveFormat::CheckStrings(const TensorView& strings) const { return CheckNpyStrings(strings); }

ArchiveTraits NpyArchiveFormat::traits() const {
  ArchiveTraits traits = NpyTraits();
  traits.many_tensors = false;
  return traits;
}
bool NpyArchiveFormat::Recognizes(const ArchiveProbe& probe) const { return IsNpy(probe.head); }

absl::StatusOr<std::unique_ptr<ArchiveReader>> NpyArchiveFormat::Open(const std::string& path,
                                                                      const ArchiveReaderOptions& options) const {
  return NpyArchiveReader<NpyReader>::Open(path, options, options_);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> NpyArchiveFormat::Create(const std::string& path,
                                                                        const ArchiveWriterOptions& options) const {
  NpyWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.format = ToNpyFormat(options);
  CASK_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(path, write));
  return std::unique_ptr<ArchiveWriter>(new NpyArchiveWriter(path, options.file_system, std::move(writer)));
}

ArchiveTraits NpzArchiveFormat::traits() const {
  ArchiveTraits traits = NpyTraits();
  traits.levels = true;
  traits.is_edited = true;
  return traits;
}
absl::Status NpzArchiveFormat::CheckEntry(const ArchiveEntry& entry) const {
  CASK_RETURN_IF_ERROR(NpzWriter::CheckName(entry.name));
  return NumpyArchiveFormat::CheckEntry(entry);
}

// Other programs make zip archives, too: the first member must be an array.
bool NpzArchiveFormat::Recognizes(const ArchiveProbe& probe) const {
  constexpr size_t kLocalHeaderBytes = 30;
  constexpr size_t kNameLengthOffset = 26;
  const absl::string_view head = probe.head;
  if (head.size() < kLocalHeaderBytes || !absl::StartsWith(head, "PK\x03\x04")) return false;
  const size_t name_bytes = static_cast<unsigned char>(head[kNameLengthOffset]) |
                            static_cast<size_t>(static_cast<unsigned char>(head[kNameLengthOffset + 1])) << 8;
  return absl::EndsWith(head.substr(kLocalHeaderBytes, name_bytes), ".npy");
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> NpzArchiveFormat::Open(const std::string& path,
                                                                      const ArchiveReaderOptions& options) const {
  return NpyArchiveReader<NpzReader>::Open(path, options, options_);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> NpzArchiveFormat::OpenDamaged(
    const std::string& path, const ArchiveReaderOptions& options) const {
  return NpyArchiveReader<NpzReader>::Open(path, options, options_, /*recover=*/true);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> NpzArchiveFormat::Create(const std::string& path,
                                                                        const ArchiveWriterOptions& options) const {
  constexpr int kDefaultLevel = 6;
  constexpr int kHighLevel = 9;
  NpzWriterOptions write;
  write.file_system = options.file_system;
  write.sync = options.sync;
  write.overwrite = options.overwrite;
  write.format = ToNpyFormat(options);
  if (options.level == PayloadLevel::kDefault) write.deflate_level = kDefaultLevel;
  if (options.level == PayloadLevel::kHigh) write.deflate_level = kHighLevel;
  CASK_ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create(path, write));
  return std::unique_ptr<ArchiveWriter>(new NpzArchiveWriter(path, options.file_system, std::move(writer)));
}

absl::StatusOr<FileEditResult> NpzArchiveFormat::Edit(const std::string& path, const FileEdits& edits,
                                                      const FileEditOptions& options) const {
  return npy::EditNpz(path, edits, options);
}

}  // namespace tensorcask
