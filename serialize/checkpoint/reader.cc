#include "tensorcask/serialize/checkpoint/reader.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/data_files.h"
#include "tensorcask/serialize/checkpoint/entry_codec.h"
#include "tensorcask/serialize/checkpoint/naming.h"
#include "tensorcask/serialize/checkpoint/string_codec.h"
#include "tensorcask/serialize/checkpoint/table_reader.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using checkpoint::ByteChecker;
using checkpoint::DataFiles;
using checkpoint::IndexEntry;
using checkpoint::StoredStrings;
using checkpoint::TableReader;

uint64_t Limit(int64_t limit) { return static_cast<uint64_t>(std::max<int64_t>(limit, 0)); }

// Names `what`, a file or a tensor in one, in front of the message.
absl::Status In(absl::string_view what, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

// A part of a data file that an entry calls its own.
struct StoredRange {
  int32_t shard;
  uint64_t offset;
  uint64_t size_bytes;
  size_t entry;  // which
};

// Adds the range of the entry that is number `i`, if it has one.
void AddRange(const IndexEntry& index, size_t i, std::vector<StoredRange>* ranges) {
  const CheckpointEntry& entry = index.entry;
  if (entry.stored_bytes > 0 && !index.is_slice_list) {
    ranges->push_back({entry.shard, entry.offset, entry.stored_bytes, i});
  }
}

// Calls fn(former, latter) for each entry whose bytes begin inside those of another.
void FindOverlaps(std::vector<StoredRange> ranges, absl::FunctionRef<void(size_t, size_t)> fn) {
  const auto before = [](const StoredRange& a, const StoredRange& b) {
    return std::tie(a.shard, a.offset, a.entry) < std::tie(b.shard, b.offset, b.entry);
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) std::sort(ranges.begin(), ranges.end(), before);
  const StoredRange* furthest = nullptr;  // of those so far, the one that ends last
  for (const StoredRange& range : ranges) {
    if (furthest == nullptr || furthest->shard != range.shard) {
      furthest = &range;
      continue;
    }
    const uint64_t end = furthest->offset + furthest->size_bytes;  // below 2^63, DecodeEntry has seen to that
    if (range.offset < end) fn(furthest->entry, range.entry);
    if (range.offset + range.size_bytes > end) furthest = &range;
  }
}

}  // namespace

class CheckpointReader::Impl {
 public:
  Impl(std::string prefix, std::unique_ptr<TableReader> table, uint64_t index_bytes, int num_shards,
       const CheckpointReaderOptions& options)
      : prefix_(std::move(prefix)),
        index_path_(checkpoint::IndexPath(prefix_)),
        index_bytes_(index_bytes),
        num_shards_(num_shards),
        options_(options),
        table_(std::move(table)),
        files_(prefix_, num_shards, options.read) {}

  const std::string& prefix() const { return prefix_; }
  int num_shards() const { return num_shards_; }
  std::string DataPath(int shard) const { return files_.Path(shard); }

  absl::StatusOr<std::vector<CheckpointEntry>> entries() const;
  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const;
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::StatusOr<Tensor> Map(absl::string_view name) const;
  absl::StatusOr<CheckpointCensus> VerifyAll(absl::FunctionRef<void(const CheckpointDamage&)> report) const;

 private:
  using File = std::shared_ptr<const ByteSource>;

  // A tensor of the index, and what it is remembered by once it is verified.
  struct Located {
    IndexEntry index;
    const void* id = nullptr;
  };

  absl::StatusOr<Located> Locate(absl::string_view name) const;
  absl::StatusOr<Located> LocateReadable(absl::string_view name) const;
  absl::Status ForEachName(absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const;

  bool MustVerify(const Located& located) const;
  void SetVerified(const Located& located) const;

  absl::StatusOr<Tensor> ReadLocated(const Located& located) const;
  absl::Status ReadFixed(const Located& located, const File& file, absl::Span<char> out) const;
  absl::Status ReadStrings(const CheckpointEntry& entry, const File& file, bool verify,
                           absl::FunctionRef<absl::Status(const StoredStrings&)> take) const;
  absl::Status CheckDecodedBytes(const CheckpointEntry& entry) const;
  absl::Status VerifyEntry(const IndexEntry& index, std::vector<char>* scratch, bool* checked) const;
  void ReportMissingFiles(absl::FunctionRef<void(const CheckpointDamage&)> report) const;

  // "PATH: tensor "w" at offset 128, 16 bytes", for messages.
  std::string Place(const CheckpointEntry& entry) const {
    return absl::StrCat(files_.Path(entry.shard), ": tensor ", Quoted(entry.name), " at offset ", entry.offset, ", ",
                        entry.stored_bytes, " bytes");
  }

  absl::Status Overlap(const CheckpointEntry& former, const CheckpointEntry& latter) const {
    return absl::DataLossError(
        absl::StrCat(Place(latter), ", overlaps tensor ", Quoted(former.name), " at offset ", former.offset));
  }

  const std::string prefix_;
  const std::string index_path_;
  const uint64_t index_bytes_;
  const int num_shards_;
  const CheckpointReaderOptions options_;
  const std::unique_ptr<TableReader> table_;
  const DataFiles files_;

  mutable std::mutex mutex_;
  mutable absl::flat_hash_set<const void*> verified_;  // Located::id
};

// ---- The index ------------------------------------------------------------------------------------------------------

absl::Status CheckpointReader::Impl::ForEachName(
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> fn) const {
  // Names share their beginnings in the file. Writers put a whole one at every sixteenth, so that names add up to
  // sixteen files at most; in a file made for the purpose, to its square.
  constexpr uint64_t kNameExpansion = 16;
  constexpr uint64_t kEntryBytes = 128;     // in memory
  constexpr uint64_t kLeastEntryBytes = 8;  // in an index that is not compressed
  uint64_t names = 0;
  uint64_t name_bytes = 0;
  return table_->ForEach([&](absl::string_view name, absl::string_view value) -> absl::Status {
    if (name.empty()) return absl::OkStatus();  // the header
    ++names;
    name_bytes += name.size();
    if (name.size() > Limit(options_.limits.max_name_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(index_path_, ": tensor name ", Quoted(name),
                                                       " is past max_name_bytes ", options_.limits.max_name_bytes));
    }
    if (names > Limit(options_.limits.max_entries)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(index_path_, ": more tensors than max_entries ", options_.limits.max_entries));
    }
    const uint64_t unbacked = Limit(options_.limits.max_unbacked_bytes);
    // Compressed, entries alike take hardly a byte each, and in memory some hundred.
    if (names > unbacked / kEntryBytes + index_bytes_ / kLeastEntryBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(index_path_, ": more than ", names - 1, " tensors in ",
                                                       index_bytes_, " bytes, past max_unbacked_bytes ", unbacked));
    }
    if (name_bytes > unbacked && (name_bytes - unbacked) / kNameExpansion > index_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(index_path_, ": ", name_bytes, " bytes of tensor names in ",
                                                       index_bytes_, ", past max_unbacked_bytes ", unbacked));
    }
    return fn(name, value);
  });
}

absl::StatusOr<CheckpointReader::Impl::Located> CheckpointReader::Impl::Locate(absl::string_view name) const {
  std::optional<absl::string_view> value;
  if (!name.empty()) {
    CASK_ASSIGN_OR_RETURN(value, table_->Find(name));
  }
  if (!value.has_value()) return absl::NotFoundError(absl::StrCat(index_path_, ": no tensor ", Quoted(name)));
  Located located;
  const absl::Status status = checkpoint::DecodeEntry(name, *value, num_shards_, &located.index);
  if (!status.ok()) return In(absl::StrCat(index_path_, ": tensor ", Quoted(name)), status);
  located.index.entry.name.assign(name.data(), name.size());
  located.id = value->data();
  return located;
}

absl::StatusOr<CheckpointReader::Impl::Located> CheckpointReader::Impl::LocateReadable(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(Located located, Locate(name));
  const CheckpointEntry& entry = located.index.entry;
  std::string reason;
  if (entry.form == EntryForm::kUnknown) {
    reason = absl::StrCat("has dtype number ", located.index.dtype_number, ", which this version does not know");
  } else if (entry.form != EntryForm::kPlain) {
    reason = absl::StrCat("is stored ", EntryFormName(entry.form), ", which this version only lists");
  } else if (!IsFixedSize(entry.dtype) && entry.dtype != DType::kString) {
    reason = absl::StrCat("is of dtype ", DTypeName(entry.dtype), ", which this version does not read");
  }
  if (!reason.empty()) {
    return absl::UnimplementedError(absl::StrCat(index_path_, ": tensor ", Quoted(name), " ", reason));
  }
  return located;
}

absl::StatusOr<CheckpointEntry> CheckpointReader::Impl::Find(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(Located located, Locate(name));
  return std::move(located.index.entry);
}

absl::StatusOr<std::vector<CheckpointEntry>> CheckpointReader::Impl::entries() const {
  std::vector<CheckpointEntry> found;
  std::vector<StoredRange> ranges;
  IndexEntry index;
  CASK_RETURN_IF_ERROR(ForEachName([&](absl::string_view name, absl::string_view value) -> absl::Status {
    const absl::Status status = checkpoint::DecodeEntry(name, value, num_shards_, &index);
    if (!status.ok()) return In(absl::StrCat(index_path_, ": tensor ", Quoted(name)), status);
    index.entry.name.assign(name.data(), name.size());
    AddRange(index, found.size(), &ranges);
    found.push_back(std::move(index.entry));
    return absl::OkStatus();
  }));
  absl::Status overlap;
  FindOverlaps(std::move(ranges), [&](size_t former, size_t latter) {
    if (overlap.ok()) overlap = Overlap(found[former], found[latter]);
  });
  CASK_RETURN_IF_ERROR(overlap);
  return found;
}

// ---- Data -----------------------------------------------------------------------------------------------------------

bool CheckpointReader::Impl::MustVerify(const Located& located) const {
  if (options_.verify == Verify::kNever) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  return !verified_.contains(located.id);
}

void CheckpointReader::Impl::SetVerified(const Located& located) const {
  std::lock_guard<std::mutex> lock(mutex_);
  verified_.insert(located.id);
}

absl::Status CheckpointReader::Impl::ReadFixed(const Located& located, const File& file, absl::Span<char> out) const {
  const bool verify = MustVerify(located);
  const absl::Status status = files_.Read(*file, located.index.entry, verify, out);
  if (!status.ok()) return In(Place(located.index.entry), status);
  if (verify) SetVerified(located);
  return absl::OkStatus();
}

// What reading the entry takes in memory. Errors: ResourceExhausted past the limit.
absl::Status CheckpointReader::Impl::CheckDecodedBytes(const CheckpointEntry& entry) const {
  const uint64_t limit = Limit(options_.limits.max_file_decoded_bytes);
  const uint64_t object_bytes =
      entry.dtype == DType::kString ? sizeof(std::string) * static_cast<uint64_t>(entry.shape.num_elements()) : 0;
  if (entry.stored_bytes <= limit && object_bytes <= limit - entry.stored_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("takes ", entry.stored_bytes, " bytes and ", object_bytes,
                                                   " of string objects, past max_file_decoded_bytes ", limit));
}

// Reads and checks the whole entry, then calls take(strings), before which nothing is made of the strings.
absl::Status CheckpointReader::Impl::ReadStrings(const CheckpointEntry& entry, const File& file, bool verify,
                                                 absl::FunctionRef<absl::Status(const StoredStrings&)> take) const {
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(entry.stored_bytes));
  char* data = static_cast<char*>(buffer->mutable_data());
  CASK_RETURN_IF_ERROR(file->ReadAt(entry.offset, absl::MakeSpan(data, entry.stored_bytes)));
  CASK_ASSIGN_OR_RETURN(
      const StoredStrings strings,
      checkpoint::ParseStrings(buffer->bytes(), static_cast<uint64_t>(entry.shape.num_elements()), verify));
  if (verify) CASK_RETURN_IF_ERROR(checkpoint::CheckChecksum(entry, strings.crc));
  return take(strings);
}

absl::StatusOr<Tensor> CheckpointReader::Impl::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Located located, LocateReadable(name));
  return ReadLocated(located);
}

absl::StatusOr<Tensor> CheckpointReader::Impl::ReadLocated(const Located& located) const {
  const CheckpointEntry& entry = located.index.entry;
  absl::StatusOr<File> file = files_.FileOf(entry);
  if (!file.ok()) return In(absl::StrCat("tensor ", Quoted(entry.name)), file.status());
  if (const absl::Status status = CheckDecodedBytes(entry); !status.ok()) return In(Place(entry), status);
  Tensor tensor;
  if (entry.dtype == DType::kString) {
    const bool verify = MustVerify(located);
    const absl::Status status = ReadStrings(entry, *file, verify, [&](const StoredStrings& strings) -> absl::Status {
      CASK_ASSIGN_OR_RETURN(tensor, Tensor::Create(entry.dtype, entry.shape, options_.allocator));
      if (strings.count > 0) checkpoint::CopyStrings(strings, tensor.mutable_data<std::string>());
      return absl::OkStatus();
    });
    if (!status.ok()) return In(Place(entry), status);
    if (verify) SetVerified(located);
    return tensor;
  }
  CASK_ASSIGN_OR_RETURN(tensor, Tensor::Create(entry.dtype, entry.shape, options_.allocator));
  CASK_RETURN_IF_ERROR(ReadFixed(located, *file, tensor.mutable_bytes()));
  return tensor;
}

absl::Status CheckpointReader::Impl::ReadInto(absl::string_view name, Tensor* out) const {
  CASK_ASSIGN_OR_RETURN(const Located located, LocateReadable(name));
  const CheckpointEntry& entry = located.index.entry;
  if (out->dtype() != entry.dtype || out->shape() != entry.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        index_path_, ": tensor ", Quoted(name), " is ", DTypeName(entry.dtype), " ", entry.shape.ToString(),
        "; the tensor to fill is ", DTypeName(out->dtype()), " ", out->shape().ToString()));
  }
  absl::StatusOr<File> file = files_.FileOf(entry);
  if (!file.ok()) return In(absl::StrCat("tensor ", Quoted(entry.name)), file.status());
  if (const absl::Status status = CheckDecodedBytes(entry); !status.ok()) return In(Place(entry), status);
  CASK_RETURN_IF_ERROR(out->EnsureMutable());
  if (entry.dtype != DType::kString) return ReadFixed(located, *file, out->mutable_bytes());
  const bool verify = MustVerify(located);
  const absl::Status status = ReadStrings(entry, *file, verify, [&](const StoredStrings& strings) {
    if (strings.count > 0) checkpoint::CopyStrings(strings, out->mutable_data<std::string>());
    return absl::OkStatus();
  });
  if (!status.ok()) return In(Place(entry), status);
  if (verify) SetVerified(located);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> CheckpointReader::Impl::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Located located, LocateReadable(name));
  const CheckpointEntry& entry = located.index.entry;
  if (!IsFixedSize(entry.dtype) || entry.stored_bytes == 0 || entry.offset % ElementAlignment(entry.dtype) != 0) {
    return ReadLocated(located);
  }
  absl::StatusOr<File> file = files_.FileOf(entry);
  if (!file.ok()) return In(absl::StrCat("tensor ", Quoted(entry.name)), file.status());
  absl::StatusOr<RefPtr<TensorBuffer>> mapped = (*file)->Map(entry.offset, entry.stored_bytes);
  if (absl::IsUnimplemented(mapped.status())) return ReadLocated(located);
  if (!mapped.ok()) return In(Place(entry), mapped.status());
  const bool verify = MustVerify(located);
  ByteChecker checker(entry, verify);
  if (!checker.idle()) {
    checker.Check((*mapped)->bytes());
    const absl::Status status = checker.Finish();
    if (!status.ok()) return In(Place(entry), status);
  }
  if (verify) SetVerified(located);
  return Tensor::FromBuffer(entry.dtype, entry.shape, *std::move(mapped));
}

// ---- Everything -----------------------------------------------------------------------------------------------------

// Checks what is stored for the entry; *checked tells whether that was every byte of it.
absl::Status CheckpointReader::Impl::VerifyEntry(const IndexEntry& index, std::vector<char>* scratch,
                                                 bool* checked) const {
  const CheckpointEntry& entry = index.entry;
  *checked = false;
  if (index.is_slice_list) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const File file, files_.FileOf(entry));
  if (!index.has_plain_bytes) return absl::OkStatus();
  if (entry.dtype == DType::kString) {
    CASK_RETURN_IF_ERROR(CheckDecodedBytes(entry));
    *checked = true;
    return ReadStrings(entry, file, /*verify=*/true, [](const StoredStrings&) { return absl::OkStatus(); });
  }
  if (!IsFixedSize(entry.dtype)) return absl::OkStatus();
  *checked = true;
  ByteChecker checker(entry, /*verify=*/true);
  for (uint64_t done = 0; done < entry.stored_bytes;) {
    const uint64_t bytes = std::min<uint64_t>(entry.stored_bytes - done, scratch->size());
    CASK_RETURN_IF_ERROR(file->ReadAt(entry.offset + done, absl::MakeSpan(scratch->data(), bytes)));
    checker.Check(absl::string_view(scratch->data(), bytes));
    done += bytes;
  }
  return checker.Finish();
}

// The index tells how many data files there are. That one is missing matters even if no tensor is in it.
void CheckpointReader::Impl::ReportMissingFiles(absl::FunctionRef<void(const CheckpointDamage&)> report) const {
  FileSystem* const files = options_.read.file_system != nullptr ? options_.read.file_system : FileSystem::Posix();
  int missing = 0;
  std::string first;
  for (int shard = 0; shard < num_shards_; ++shard) {
    FileInfo info;
    const std::string path = files_.Path(shard);
    if (files->Describe(path, &info) != -ENOENT) continue;
    if (missing++ == 0) first = path;
  }
  if (missing == 0) return;
  report({"", first, 0,
          absl::DataLossError(absl::StrCat(first, ": is missing; of ", num_shards_,
                                           " data files that the index tells of, ", missing, " are"))});
}

absl::StatusOr<CheckpointCensus> CheckpointReader::Impl::VerifyAll(
    absl::FunctionRef<void(const CheckpointDamage&)> report) const {
  // What is wrong with the files, or too large to look at; the rest is what keeps us from looking.
  const auto is_damage = [](const absl::Status& status) {
    return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
           absl::IsResourceExhausted(status);
  };
  std::vector<IndexEntry> found;
  std::vector<StoredRange> ranges;
  const absl::Status walked = ForEachName([&](absl::string_view name, absl::string_view value) {
    IndexEntry index;
    const absl::Status status = checkpoint::DecodeEntry(name, value, num_shards_, &index);
    if (status.ok()) {
      index.entry.name.assign(name.data(), name.size());
      AddRange(index, found.size(), &ranges);
      found.push_back(std::move(index));
    } else {
      report({std::string(name), index_path_, 0, In(absl::StrCat(index_path_, ": tensor ", Quoted(name)), status)});
    }
    return absl::OkStatus();
  });
  if (is_damage(walked)) {
    report({"", index_path_, 0, walked});
    return CheckpointCensus();
  }
  CASK_RETURN_IF_ERROR(walked);
  ReportMissingFiles(report);

  std::vector<bool> overlaps(found.size());
  FindOverlaps(std::move(ranges), [&](size_t former, size_t latter) {
    const CheckpointEntry& entry = found[latter].entry;
    overlaps[latter] = true;
    report({entry.name, files_.Path(entry.shard), entry.offset, Overlap(found[former].entry, entry)});
  });

  std::vector<size_t> order(found.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(found[a].entry.shard, found[a].entry.offset, a) <
           std::tie(found[b].entry.shard, found[b].entry.offset, b);
  });
  constexpr size_t kScratchBytes = size_t{512} << 10;
  std::vector<char> scratch(kScratchBytes);
  CheckpointCensus census;
  absl::Status unseen;
  for (const size_t i : order) {
    const CheckpointEntry& entry = found[i].entry;
    bool checked = false;
    if (overlaps[i]) continue;  // reported; and reading one range a million times takes a day
    const absl::Status status = VerifyEntry(found[i], &scratch, &checked);
    if (is_damage(status)) {
      report({entry.name, files_.Path(entry.shard), entry.offset, In(Place(entry), status)});
    } else if (!status.ok()) {
      unseen.Update(In(Place(entry), status));  // the others are looked at all the same
    } else if (!checked && entry.form != EntryForm::kSliced) {
      ++census.not_checked;
    } else if (checked && entry.form == EntryForm::kPlain) {
      ++census.whole;
    }
  }
  CASK_RETURN_IF_ERROR(unseen);
  return census;
}

// ---- The handle -----------------------------------------------------------------------------------------------------

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path,
                                                        const CheckpointReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::string prefix, checkpoint::PrefixOfPath(path));
  ReadOptions read_index;
  read_index.file_system = options.read.file_system;
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file,
                        OpenFileSource(checkpoint::IndexPath(prefix), read_index));
  const uint64_t index_bytes = file->size_bytes();
  const std::string index_path = file->name();
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table, TableReader::Open(std::move(file), options.limits));
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> value, table->Find(""));
  if (!value.has_value()) return absl::DataLossError(absl::StrCat(index_path, ": has no header"));
  const absl::StatusOr<checkpoint::IndexHeader> header = checkpoint::DecodeHeader(*value);
  if (!header.ok()) return In(index_path, header.status());
  return CheckpointReader(
      std::make_unique<Impl>(std::move(prefix), std::move(table), index_bytes, header->num_shards, options));
}

const std::string& CheckpointReader::prefix() const { return impl_->prefix(); }
int CheckpointReader::num_shards() const { return impl_->num_shards(); }

std::string CheckpointReader::DataPath(int shard) const {
  CASK_CHECK(shard >= 0 && shard < num_shards(), "CheckpointReader::DataPath: no such shard");
  return impl_->DataPath(shard);
}

absl::StatusOr<std::vector<CheckpointEntry>> CheckpointReader::entries() const { return impl_->entries(); }
absl::StatusOr<CheckpointEntry> CheckpointReader::Find(absl::string_view name) const { return impl_->Find(name); }
absl::StatusOr<Tensor> CheckpointReader::Read(absl::string_view name) const { return impl_->Read(name); }
absl::Status CheckpointReader::ReadInto(absl::string_view name, Tensor* out) const {
  return impl_->ReadInto(name, out);
}
absl::StatusOr<Tensor> CheckpointReader::Map(absl::string_view name) const { return impl_->Map(name); }
absl::StatusOr<CheckpointCensus> CheckpointReader::VerifyAll(
    absl::FunctionRef<void(const CheckpointDamage&)> report) const {
  return impl_->VerifyAll(report);
}

}  // namespace tensorcask
