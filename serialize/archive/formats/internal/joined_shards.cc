#include "tensorcask/serialize/archive/formats/internal/joined_shards.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/internal/shard_name.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/safetensors/sharding_info.h"
#include "tensorcask/serialize/stored/boxes.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

// "shard-00001-model-00001-of-00001.safetensors": the number of the shard, and that of the file in it.
constexpr absl::string_view kShardNamePrefix = "shard-";
constexpr absl::string_view kShardNameMiddle = "-model-";
constexpr absl::string_view kShardNameExtension = ".safetensors";

class JoinedShardsReader final : public ArchiveReader {
 public:
  JoinedShardsReader(std::string path, const ArchiveReaderOptions& options)
      : path_(std::move(path)), options_(options) {}

  absl::Status Add(const std::string& file, const ArchiveFormat& format) {
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> shard, format.Open(file, options_));
    const FileMetadata& metadata = shard->file_metadata();
    const auto text = metadata.find(std::string(safetensors::kShardingInfoKey));
    if (text == metadata.end()) {
      return absl::DataLossError(absl::StrCat(file, ": is named as a part of a distributed checkpoint, and has no ",
                                              safetensors::kShardingInfoKey, " in its metadata"));
    }
    for (const auto& [key, value] : metadata) {
      if (key == safetensors::kShardingInfoKey) continue;
      const auto [known, is_new] = metadata_.try_emplace(key, value);
      if (!is_new && known->second != value) differing_.insert(key);
    }
    CASK_ASSIGN_OR_ANNOTATE(safetensors::ShardingInfo info,
                            safetensors::ParseShardingInfo(text->second, options_.limits), file);
    for (const ArchiveEntry& entry : shard->entries()) {
      Joined& joined = tensors_[entry.name];
      joined.shards.push_back(shards_.size());
      stored::Box box;
      for (const int64_t dim : entry.shape.dims()) box.sizes.push_back(dim);
      if (const auto offsets = info.find(entry.name); offsets != info.end()) {
        box.offsets = std::move(offsets->second);
        info.erase(offsets);
      } else if (joined.status.ok()) {
        joined.status = absl::DataLossError(absl::StrCat(file, " does not say which part of it it has"));
      }
      joined.boxes.push_back(std::move(box));
    }
    if (!info.empty()) {
      notes_.push_back(
          absl::StrCat(file, ": says where ", Quoted(info.begin()->first), " begins, which it does not have"));
    }
    shards_.push_back(std::move(shard));
    return absl::OkStatus();
  }

  // Notes the files that the names of the others count. Each number has a file of at least one shard.
  void NoteMissingFiles() {
    constexpr size_t kMostNames = 8;
    std::map<int, std::set<int>> numbers;  // by the count of files
    for (const std::unique_ptr<ArchiveReader>& shard : shards_) {
      const std::optional<FileNumber> file = NumberInName(shard->path());
      if (file.has_value()) numbers[file->count].insert(file->number);
    }
    for (const auto& [count, present] : numbers) {
      const size_t missing = static_cast<size_t>(count) - present.size();
      std::vector<std::string> names;
      for (int number = 1; number <= count && names.size() < std::min(missing, kMostNames); ++number) {
        if (present.count(number) > 0) continue;
        names.push_back(absl::StrCat(kShardNamePrefix, "*", kShardNameMiddle, absl::Dec(number, absl::kZeroPad5),
                                     "-of-", absl::Dec(count, absl::kZeroPad5), kShardNameExtension));
      }
      if (missing == 0) continue;
      absl::StrAppend(&missing_, missing_.empty() ? "" : "; ", missing, missing == 1 ? " file is" : " files are",
                      " missing: ", absl::StrJoin(names, ", "), missing > kMostNames ? ", ..." : "");
    }
    if (!missing_.empty()) notes_.push_back(missing_);
  }

  absl::Status List(ListingBudget* budget) {
    for (const std::string& key : differing_) metadata_.erase(key);
    if (!differing_.empty()) {
      notes_.push_back(absl::StrCat("the files differ in the metadata ", Quoted(*differing_.begin()),
                                    differing_.size() > 1 ? absl::StrCat(" and ", differing_.size() - 1, " more") : "",
                                    ", which is left out"));
    }
    NoteMissingFiles();
    constexpr uint64_t kBytesOfPart = 64;  // of a header, at least
    uint64_t parts = 0;
    for (const auto& [name, joined] : tensors_) parts += joined.boxes.size();
    stored::TilingBudget tiling(kBytesOfPart * parts);
    for (auto& [name, joined] : tensors_) {
      ArchiveEntry entry;
      entry.name = name;
      entry.pieces = joined.shards.size() > 1 ? static_cast<int>(joined.shards.size()) : 0;
      if (joined.status.ok()) joined.status = Join(name, joined, &tiling, &entry);
      for (const size_t shard : joined.shards) entry.stored_bytes += (*shards_[shard]->Find(name))->stored_bytes;
      entry.encoding = absl::IsUnimplemented(joined.status) ? "unknown"
                       : !joined.status.ok()                ? "not readable"
                       : joined.shards.size() > 1           ? "sliced"
                                                            : "plain";
      entry.reads_in_blocks = joined.status.ok();
      entry.read_status = joined.status;
      CASK_RETURN_IF_ERROR(Annotate(budget->Charge(EntryMemory(entry)), path_));
      entries_.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  absl::string_view format() const override { return "dcp"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  const FileMetadata& file_metadata() const override { return metadata_; }

  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    return ReadPart(*entry, TensorSlice::Full(entry->shape.rank()));
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    return ReadPart(*entry, slice);
  }
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    return ReadSliceInto(name, TensorSlice::Full(entry->shape.rank()), out);
  }
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(CheckReadable(*entry));
    const auto read = [&]() -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(entry->shape));
      CASK_RETURN_IF_ERROR(stored::CheckTarget(entry->dtype, shape, *out));
      return Fill(*entry, slice, out);
    };
    return Annotate(read(), absl::StrCat(path_, ": tensor ", Quoted(name)));
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    std::map<std::string, bool> damaged;  // false: past a limit
    for (const ArchiveEntry& entry : entries_) {
      if (entry.read_status.ok() || absl::IsUnimplemented(entry.read_status)) continue;
      damaged[entry.name] |= !absl::IsResourceExhausted(entry.read_status);
      report({entry.name, path_, 0, CheckReadable(entry)});
    }
    for (const std::unique_ptr<ArchiveReader>& shard : shards_) {
      CASK_ASSIGN_OR_RETURN(const TensorCounts of_shard, shard->VerifyAll([&](const ArchiveDamage& damage) {
        report(damage);
        if (damage.tensor.empty()) {
          ++counts.damaged_elsewhere;
        } else {
          damaged[damage.tensor] |= !absl::IsResourceExhausted(damage.status);
        }
      }));
      for (const std::string& note : of_shard.notes) {
        // That its tensors may be parts is a note of a file that was opened alone.
        if (!absl::StrContains(note, safetensors::kShardingInfoKey)) counts.notes.push_back(note);
      }
    }
    if (!missing_.empty()) {
      ++counts.damaged_elsewhere;
      report({"", path_, 0, absl::DataLossError(absl::StrCat(path_, ": ", missing_))});
    }
    for (const auto& [name, is_damaged] : damaged) ++(is_damaged ? counts.damaged : counts.past_limit);
    for (const ArchiveEntry& entry : entries_) counts.not_checked += absl::IsUnimplemented(entry.read_status);
    counts.whole = static_cast<int64_t>(entries_.size()) - counts.damaged - counts.past_limit - counts.not_checked;
    return counts;
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> files;
    for (const std::unique_ptr<ArchiveReader>& shard : shards_) files.push_back(shard->path());
    return files;
  }
  int num_shards() const override { return static_cast<int>(shards_.size()); }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  struct Joined {
    std::vector<size_t> shards;  // the shard of each box
    std::vector<stored::Box> boxes;
    absl::Status status;
  };

  // Sets dtype and shape.
  absl::Status Join(const std::string& name, const Joined& joined, stored::TilingBudget* tiling,
                    ArchiveEntry* entry) const {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < joined.boxes.size(); ++i) {
      CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const part, shards_[joined.shards[i]]->Find(name));
      CASK_RETURN_IF_ERROR(part->read_status);
      const stored::Box& box = joined.boxes[i];
      if (i == 0) {
        entry->dtype = part->dtype;
        dims.resize(box.sizes.size(), 0);
      }
      if (part->dtype != entry->dtype) {
        return absl::DataLossError(absl::StrCat("has parts of ", DTypeName(entry->dtype), " and of ",
                                                DTypeName(part->dtype), ", which is in ",
                                                shards_[joined.shards[i]]->path()));
      }
      if (box.sizes.size() != dims.size() || box.offsets.size() != dims.size()) {
        return absl::DataLossError(
            absl::StrCat("has parts of different ranks; see ", shards_[joined.shards[i]]->path()));
      }
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        const auto end = CheckedAdd(box.offsets[axis], box.sizes[axis]);
        if (!end.has_value()) return absl::DataLossError("has a part that ends past 64 bits");
        dims[axis] = std::max(dims[axis], *end);
      }
    }
    absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
    if (!shape.ok()) return absl::DataLossError(shape.status().message());
    entry->shape = *std::move(shape);
    return stored::CheckTiling(entry->shape, joined.boxes, tiling);
  }

  absl::StatusOr<Tensor> ReadPart(const ArchiveEntry& entry, const TensorSlice& slice) const {
    CASK_RETURN_IF_ERROR(CheckReadable(entry));
    const auto read = [&]() -> absl::StatusOr<Tensor> {
      CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(entry.shape));
      const auto bytes = CheckedMul(static_cast<uint64_t>(shape.num_elements()), uint64_t{ElementSize(entry.dtype)});
      CASK_RETURN_IF_ERROR(DecodeQuota::ForFile(options_.limits).Charge(bytes.value_or(DecodeQuota::kTooMany)));
      CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, shape));
      CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
      TensorView view = tensor;
      CASK_RETURN_IF_ERROR(Fill(entry, slice, &view));
      return tensor;
    };
    CASK_ASSIGN_OR_ANNOTATE(Tensor tensor, read(), absl::StrCat(path_, ": tensor ", Quoted(entry.name)));
    return tensor;
  }

  absl::Status Fill(const ArchiveEntry& entry, const TensorSlice& slice, TensorView* out) const {
    const Joined& joined = tensors_.find(entry.name)->second;
    return stored::ReadSliceFromBoxes(
        joined.boxes, slice,
        [&](size_t box, const TensorSlice& part, TensorView* to) -> absl::Status {
          const ArchiveReader& shard = *shards_[joined.shards[box]];
          return part.IsFull() ? shard.ReadInto(entry.name, to) : shard.ReadSliceInto(entry.name, part, to);
        },
        out);
  }

  const std::string path_;
  const ArchiveReaderOptions options_;
  std::vector<std::unique_ptr<ArchiveReader>> shards_;
  std::map<std::string, Joined> tensors_;  // by name
  std::vector<ArchiveEntry> entries_;
  FileMetadata metadata_;            // that of all files
  std::set<std::string> differing_;  // its keys that have several values
  std::string missing_;              // a sentence; "": no file is missing
  std::vector<std::string> notes_;
};

}  // namespace

bool IsShardName(absl::string_view name) {
  return absl::StartsWith(name, kShardNamePrefix) && absl::StrContains(name, kShardNameMiddle) &&
         absl::EndsWith(name, kShardNameExtension);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenJoinedShards(const std::string& folder,
                                                                const std::vector<std::string>& names,
                                                                const ArchiveReaderOptions& options) {
  ArchiveReaderOptions shared = options;
  if (shared.listing == nullptr) shared.listing = std::make_shared<ListingBudget>(options.limits);
  auto reader = std::make_unique<JoinedShardsReader>(folder, shared);
  const SafetensorsArchiveFormat format;
  for (const std::string& name : names) CASK_RETURN_IF_ERROR(reader->Add(absl::StrCat(folder, "/", name), format));
  CASK_RETURN_IF_ERROR(reader->List(shared.listing.get()));
  return std::unique_ptr<ArchiveReader>(std::move(reader));
}

}  // namespace tensorcask::archive
