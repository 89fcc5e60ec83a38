#include "tensorcask/serialize/checkpoint/salvage.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/read/bundle_reader.h"
#include "tensorcask/serialize/checkpoint/read/checkpoint_reader_impl.h"
#include "tensorcask/serialize/checkpoint/read/stored_ranges.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_salvage.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

using checkpoint::EntryField;
using checkpoint::IndexEntry;
using checkpoint::IsPieceKey;

// True if `value` has the form of an entry: known fields only, of the right types, with a shape. Their values are not
// checked.
bool LooksLikeEntry(absl::string_view value) {
  WireReader reader(value);
  bool has_shape = false;
  for (WireReader::Field field; reader.Next(&field);) {
    WireType wanted = WireType::kBytes;
    switch (field.number) {
      case EntryField::kDType:
      case EntryField::kShardId:
      case EntryField::kOffset:
      case EntryField::kSize:
        wanted = WireType::kVarint;
        break;
      case EntryField::kCrc32c:
        wanted = WireType::kFixed32;
        break;
      case EntryField::kShape:
        has_shape = true;
        break;
      case EntryField::kSlices:
      case internal::kExtensionNumber:
        break;
      default:
        return false;
    }
    if (field.type != wanted) return false;
  }
  return reader.status().ok() && has_shape;
}

// True if an error prevented the check, false if it is damage of a tensor. A read error of the disk counts as damage:
// the tensors there are lost.
bool KeepsFromLooking(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsCancelled(status) || absl::IsUnauthenticated(status) ||
         IsResourceFailure(status);
}

// The level at which salvage encodes an encoded tensor again.
std::optional<PayloadLevel> LevelOf(const CheckpointEntry& entry) {
  if (entry.payload == nullptr) return std::nullopt;
  const auto level = static_cast<PayloadLevel>(entry.payload->level);
  return level <= PayloadLevel::kHigh ? level : PayloadLevel::kDefault;
}

// The name of the tensor that `key` belongs to. The key of a piece contains the name.
std::string TensorOf(const std::string& key) {
  if (!IsPieceKey(key)) return key;
  const absl::StatusOr<checkpoint::SliceKey> piece = checkpoint::DecodeSliceKey(key);
  return piece.ok() ? piece->name : key;
}

class Salvage {
 public:
  Salvage(std::string prefix, const CheckpointReaderOptions& options)
      : prefix_(std::move(prefix)), index_path_(checkpoint::IndexPath(prefix_)), options_(options) {
    options_.verify = Verify::kOnRead;
  }

  using Take = absl::FunctionRef<absl::Status(absl::string_view, const DecodedTensor&, std::optional<PayloadLevel>)>;

  absl::StatusOr<SalvageReport> Run(Take take) {
    CASK_RETURN_IF_ERROR(RepairIndex());
    CASK_RETURN_IF_ERROR(ReadTensors(take));
    NameTheRest();
    for (auto& [name, damage] : lost_) report_.lost.push_back(std::move(damage));
    std::move(unnamed_.begin(), unnamed_.end(), std::back_inserter(report_.lost));
    return std::move(report_);
  }

 private:
  struct Item {
    std::string name;
    int32_t shard = 0;
    uint64_t offset = 0;
    std::optional<PayloadLevel> level = std::nullopt;
    bool is_tensor = true;  // false: a piece of one
    bool is_verified = true;
  };

  FileSystem* files() const { return options_.read.file_system; }

  // Keeps the first reason of each tensor.
  void Lose(const std::string& name, const std::string& file, uint64_t offset, const absl::Status& status) {
    lost_.emplace(name, CheckpointDamage{name, file, offset, status});
  }
  void LoseEntry(const std::string& name, const absl::Status& status) {
    Lose(name, index_path_, 0, Annotate(status, absl::StrCat(index_path_, ": tensor ", Quoted(name))));
  }

  // Sets repaired_ to an index of all entries that are whole, and items_, piece_owners_ and ranges_ to what it holds.
  absl::Status RepairIndex() {
    ReadOptions read;
    read.file_system = options_.read.file_system;
    const auto max_bytes = static_cast<uint64_t>(std::max<int64_t>(options_.limits.max_message_bytes, 0));
    const absl::StatusOr<RefPtr<TensorBuffer>> index =
        ReadWholeFile(index_path_, std::min<uint64_t>(max_bytes, UINT32_MAX), read);
    if (absl::IsNotFound(index.status())) CASK_RETURN_IF_ERROR(CheckNotV1());
    CASK_RETURN_IF_ERROR(index.status());
    const RefPtr<TensorBuffer>& file = *index;
    constexpr uint64_t kExpansion = 16;  // what an honest index may reach
    memory_.reset(
        new DecodeQuota(DecodeQuota::ForUnbacked(options_.limits, kExpansion * uint64_t{file->bytes().size()})));
    ranges_ = std::make_unique<checkpoint::StoredRanges>(memory_.get());
    StringSink sink(&repaired_);
    checkpoint::TableWriter table(&sink, {});
    absl::Status status;
    checkpoint::IndexQuota quota(index_path_, file->bytes().size(), options_.limits);
    checkpoint::SalvageTable(
        file->bytes(), options_.limits, LooksLikeEntry,
        [&](absl::string_view key, absl::string_view value) {
          if (status.ok()) status = quota.Charge(key);
          if (status.ok() && !num_shards_.has_value()) status = TakeHeader(key, value, &table);
          if (status.ok() && !key.empty()) status = TakeEntry(key, value, &table);
        },
        [&](const checkpoint::LostRange& lost) { LoseRange(lost); });
    CASK_RETURN_IF_ERROR(status);
    if (!num_shards_.has_value()) CASK_RETURN_IF_ERROR(TakeUnverifiedHeader(UnverifiedHeader(file->bytes()), &table));
    CASK_RETURN_IF_ERROR(table.Finish());
    return AddUnverified();
  }

  // V1 checkpoints are one file of any name.
  absl::Status CheckNotV1() {
    const absl::StatusOr<FileInfo> info = DescribeFile(prefix_, files());
    if (!info.ok() || info->type != FileInfo::Type::kRegular) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat(prefix_, ": there is no ", index_path_,
                     " beside it. A V1 checkpoint is one such file, and V1 checkpoints cannot be salvaged, only read"));
  }

  // The header at the front of a first block whose end is damaged or cut off; "" if it cannot be read.
  static absl::string_view UnverifiedHeader(absl::string_view index) {
    constexpr size_t kLengths = 3;  // shared 0, unshared 0, and the size of the value, in one byte
    if (index.size() < kLengths || index[0] != 0 || index[1] != 0 || static_cast<uint8_t>(index[2]) > 127) return "";
    const auto size = static_cast<size_t>(index[2]);
    return size <= index.size() - kLengths ? index.substr(kLengths, size) : "";
  }

  // Called if no block with entries is whole. Uses the header unless the data files contradict it.
  absl::Status TakeUnverifiedHeader(absl::string_view value, checkpoint::TableWriter* table) {
    const absl::StatusOr<checkpoint::IndexHeader> header = checkpoint::DecodeHeader(value, options_.limits);
    if (absl::IsUnimplemented(header.status())) return Annotate(header.status(), index_path_);
    if (!header.ok()) return TakeHeader("x", "", table);
    CASK_ASSIGN_OR_RETURN(const std::set<int> counts, DataFileCounts());
    if (counts.size() == 1 && *counts.begin() != header->num_shards) return TakeHeader("x", "", table);
    num_shards_ = header->num_shards;
    return table->Add("", value);
  }

  // Adds to repaired_ the entries that can be parsed from damaged bytes, except for keys that a whole block has. The
  // checksums of the data later decide which of these entries are right.
  absl::Status AddUnverified() {
    std::map<absl::string_view, absl::string_view> entries;
    for (const checkpoint::LostRange& lost : lost_ranges_) {
      for (const checkpoint::UnverifiedEntry& entry : lost.entries) {
        if (LooksLikeEntry(entry.value)) entries.emplace(entry.key, entry.value);
      }
    }
    if (entries.empty() || *num_shards_ == 0) return absl::OkStatus();
    std::string merged;
    StringSink sink(&merged);
    checkpoint::TableWriter table(&sink, {});
    auto next = entries.begin();
    const auto add_up_to = [&](std::optional<absl::string_view> key) -> absl::Status {
      for (; next != entries.end() && (!key.has_value() || next->first < *key); ++next) {
        CASK_RETURN_IF_ERROR(TakeUnverifiedEntry(next->first, next->second, &table));
      }
      if (next != entries.end() && next->first == key) ++next;
      return absl::OkStatus();
    };
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::TableReader> verified,
                          checkpoint::TableReader::Open(MakeMemorySource(index_path_, repaired_), options_.limits));
    CASK_RETURN_IF_ERROR(verified->ForEach([&](absl::string_view key, absl::string_view value) -> absl::Status {
      CASK_RETURN_IF_ERROR(add_up_to(key));
      return table.Add(key, value);
    }));
    CASK_RETURN_IF_ERROR(add_up_to(std::nullopt));
    CASK_RETURN_IF_ERROR(table.Finish());
    repaired_ = std::move(merged);
    return absl::OkStatus();
  }

  // Called with the first key found. It is the empty key of the header, unless the header is lost.
  absl::Status TakeHeader(absl::string_view key, absl::string_view value, checkpoint::TableWriter* table) {
    if (key.empty()) {
      const absl::StatusOr<checkpoint::IndexHeader> header = checkpoint::DecodeHeader(value, options_.limits);
      if (header.ok()) {
        num_shards_ = header->num_shards;
        return table->Add("", value);
      }
      if (!absl::IsDataLoss(header.status())) return Annotate(header.status(), index_path_);
    }
    CASK_ASSIGN_OR_RETURN(num_shards_, CountDataFiles());
    return table->Add("", checkpoint::EncodeHeader(std::max(*num_shards_, 1), /*requires_reader_v2=*/true));
  }

  // The numbers NNNNN (of NAME.data-SSSSS-of-NNNNN) in the names of the data files in the folder.
  absl::StatusOr<std::set<int>> DataFileCounts() {
    CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(FolderOf(prefix_), files(), "list"));
    const size_t slash = prefix_.rfind('/');
    const std::string base = slash == std::string::npos ? prefix_ : prefix_.substr(slash + 1);
    std::set<int> counts;
    for (const std::string& name : names) {
      const std::optional<checkpoint::DataName> data = checkpoint::ParseDataName(name);
      if (data.has_value() && data->prefix == base) counts.insert(data->num_shards);
    }
    return counts;
  }

  // The number of data files by their names; 0 if the names disagree or there are no data files.
  absl::StatusOr<int> CountDataFiles() {
    CASK_ASSIGN_OR_RETURN(const std::set<int> counts, DataFileCounts());
    if (counts.size() == 1) return *counts.begin();
    unnamed_.push_back(
        {"", index_path_, 0,
         absl::DataLossError(absl::StrCat(
             index_path_, ": its header is lost, and the data files beside it do not tell how many there ",
             "were: ", counts.empty() ? "there are none" : "some say ", absl::StrJoin(counts, ", some ")))});
    return 0;
  }

  absl::Status TakeEntry(absl::string_view key, absl::string_view value, checkpoint::TableWriter* table) {
    const std::string name = TensorOf(std::string(key));
    if (*num_shards_ == 0) {
      LoseEntry(name, absl::DataLossError("the header is lost, and with it where its bytes are"));
      return absl::OkStatus();
    }
    IndexEntry index;
    if (const absl::Status status = checkpoint::DecodeEntry(value, *num_shards_, options_.limits, &index);
        !status.ok()) {
      LoseEntry(name, status);
      return absl::OkStatus();
    }
    const CheckpointEntry& entry = index.entry;
    CASK_RETURN_IF_ERROR(AddItem(key, name, entry, /*is_verified=*/true));
    return table->Add(key, value);
  }

  // Errors: ResourceExhausted past the quota.
  absl::Status AddItem(absl::string_view key, const std::string& name, const CheckpointEntry& entry, bool is_verified) {
    const bool is_piece = IsPieceKey(key);
    absl::Status within = memory_->Charge(kItemBytes + kNameCopies * name.size());
    if (within.ok()) within = ranges_->Add(entry, static_cast<uint32_t>(items_.size()));
    if (!within.ok()) return Annotate(within, absl::StrCat(index_path_, ": the names of ", items_.size(), " entries"));
    items_.push_back({name, entry.shard, entry.offset, std::nullopt, !is_piece, is_verified});
    if (is_piece) piece_owners_.insert(name);
    if (is_piece && !is_verified) unverified_pieces_.insert(name);
    return absl::OkStatus();
  }

  // Skips bytes that are not an entry; NameTheRest reports them.
  absl::Status TakeUnverifiedEntry(absl::string_view key, absl::string_view value, checkpoint::TableWriter* table) {
    IndexEntry index;
    if (!checkpoint::DecodeEntry(value, *num_shards_, options_.limits, &index).ok()) return absl::OkStatus();
    if (IsPieceKey(key) && !checkpoint::DecodeSliceKey(key).ok()) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(AddItem(key, TensorOf(std::string(key)), index.entry, /*is_verified=*/false));
    return table->Add(key, value);
  }

  std::string Where(const checkpoint::LostRange& lost) const {
    return absl::StrCat(index_path_, ": bytes ", lost.offset, " to ", lost.offset + lost.size_bytes);
  }

  void LoseRange(const checkpoint::LostRange& lost) {
    const std::string where = Where(lost);
    unnamed_.push_back(
        {"", index_path_, lost.offset,
         absl::DataLossError(
             lost.size_bytes == 0
                 ? absl::StrCat(index_path_, ": bytes are missing from offset ", lost.offset,
                                " on: tensors whose entries were there are lost, and their names are unknown")
                 : absl::StrCat(where, " are damaged; ", lost.entries.size(),
                                lost.entries.size() == 1 ? " entry" : " entries", " in there can still be parsed"))});
    lost_ranges_.push_back(lost);
  }

  // Drops overlapping entries: a range with a million names would be read a million times. An unverified entry never
  // displaces a verified one.
  void LoseOverlaps() {
    using Overlap = checkpoint::StoredRanges::Overlap;
    const auto reason = [&](const Overlap& overlap) {
      if (!overlap.limit.ok()) return overlap.limit;
      const Item& item = items_[overlap.latter];
      return absl::DataLossError(absl::StrCat("its bytes at offset ", item.offset, " of ",
                                              checkpoint::DataPath(prefix_, item.shard, *num_shards_),
                                              " begin inside those of ", Quoted(items_[overlap.former].name)));
    };
    ranges_->FindOverlaps(
        options_.limits, [&](uint32_t number) { return items_[number].is_verified; },
        [&](const Overlap& overlap) { LoseEntry(items_[overlap.latter].name, reason(overlap)); });
    ranges_->FindOverlaps(options_.limits, [&](const Overlap& overlap) {
      const bool latter_verified = items_[overlap.latter].is_verified;
      if (items_[overlap.former].is_verified && latter_verified) return;
      refuted_.emplace(items_[latter_verified ? overlap.former : overlap.latter].name, reason(overlap));
    });
  }

  bool IsVerified(const Item& item, const CheckpointEntry& entry) const {
    return item.is_verified && (entry.form != EntryForm::kSliced || unverified_pieces_.count(item.name) == 0);
  }

  absl::Status ReadTensors(Take take) {
    LoseOverlaps();
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<const checkpoint::ReaderImpl> reader,
                          checkpoint::OpenBundle(prefix_, MakeMemorySource(index_path_, repaired_), options_));
    std::vector<Item> tensors;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (!item.is_tensor || lost_.count(item.name) == 1) continue;
      piece_owners_.erase(item.name);
      if (!item.is_verified && refuted_.count(item.name) == 1) continue;
      const absl::StatusOr<CheckpointEntry> entry = reader->Find(item.name);  // for a sliced tensor: its first piece
      if (entry.ok()) {
        tensors.push_back({item.name, entry->shard, entry->offset, LevelOf(*entry), true, IsVerified(item, *entry)});
      } else if (KeepsFromLooking(entry.status())) {
        return entry.status();
      } else if (item.is_verified) {
        Lose(item.name, index_path_, 0, entry.status());
      } else {
        refuted_.emplace(item.name, entry.status());
      }
    }
    std::sort(tensors.begin(), tensors.end(), [](const Item& a, const Item& b) {
      return std::tie(a.shard, a.offset, a.name) < std::tie(b.shard, b.offset, b.name);
    });
    for (const Item& item : tensors) {
      const absl::StatusOr<DecodedTensor> tensor = reader->ReadWithMetadata(item.name);
      if (tensor.ok()) {
        CASK_RETURN_IF_ERROR(take(item.name, *tensor, item.level));
        ++report_.saved;
        saved_.insert(item.name);
        if (!item.is_verified) report_.unverified.push_back(item.name);
      } else if (KeepsFromLooking(tensor.status())) {
        return tensor.status();
      } else if (!item.is_verified) {
        refuted_.emplace(item.name, tensor.status());
      } else {
        Lose(item.name, reader->DataPath(item.shard), item.offset, tensor.status());
      }
    }
    return absl::OkStatus();
  }

  void NameTheRest() {
    for (const checkpoint::LostRange& lost : lost_ranges_) {
      for (const checkpoint::UnverifiedEntry& entry : lost.entries) {
        const std::string name = TensorOf(entry.key);
        if (saved_.count(name) != 0) continue;
        const auto why = refuted_.find(name);
        Lose(name, index_path_, lost.offset,
             absl::DataLossError(absl::StrCat(
                 Where(lost), " are damaged, and the entry of tensor ", Quoted(name), " was there",
                 why != refuted_.end() ? absl::StrCat("; the entry found there is wrong: ", why->second.message())
                                       : "")));
      }
    }
    for (const std::string& name : piece_owners_) {
      LoseEntry(name, absl::DataLossError("its entry is lost; pieces of it are there"));
    }
  }

  const std::string prefix_;
  const std::string index_path_;
  CheckpointReaderOptions options_;

  std::string repaired_;
  std::optional<int> num_shards_;  // 0: unknown
  std::vector<Item> items_;        // the entries of the repaired index
  std::set<std::string> piece_owners_;
  std::set<std::string> unverified_pieces_;      // tensors that have such pieces
  std::map<std::string, absl::Status> refuted_;  // tensors whose unverified entry is wrong, with the reason
  // The memory of an entry until it is saved, and the number of copies of its name: here, in the repaired index, and in
  // the writer.
  static constexpr uint64_t kItemBytes = 512;
  static constexpr uint64_t kNameCopies = 4;
  std::unique_ptr<DecodeQuota> memory_;  // charged for all of these
  std::unique_ptr<checkpoint::StoredRanges> ranges_;
  std::set<std::string> saved_;
  std::map<std::string, CheckpointDamage> lost_;    // by name
  std::vector<checkpoint::LostRange> lost_ranges_;  // with the entries that damaged bytes show
  std::vector<CheckpointDamage> unnamed_;
  SalvageReport report_;
};

}  // namespace

absl::StatusOr<SalvageReport> SalvageTensors(
    const std::string& path, const CheckpointReaderOptions& options,
    absl::FunctionRef<absl::Status(absl::string_view, const DecodedTensor&)> take) {
  CASK_ASSIGN_OR_RETURN(std::string prefix, checkpoint::PrefixOfPath(path));
  return Salvage(std::move(prefix), options)
      .Run([&](absl::string_view name, const DecodedTensor& tensor, std::optional<PayloadLevel>) {
        return take(name, tensor);
      });
}

absl::StatusOr<SalvageReport> SalvageCheckpoint(const std::string& from, const std::string& to,
                                                const CheckpointReaderOptions& read,
                                                const CheckpointWriterOptions& write,
                                                const std::function<bool()>& keep_going) {
  CASK_ASSIGN_OR_RETURN(const std::string prefix, checkpoint::PrefixOfPath(from));
  if (to == prefix) {
    return absl::InvalidArgumentError(
        absl::StrCat(to, ": is what is to be salvaged; what cannot be read now would be gone for good"));
  }
  if (write.overwrite && write.file_system == read.read.file_system) {
    CASK_RETURN_IF_ERROR(checkpoint::CheckNewPrefix(to));
    CASK_RETURN_IF_ERROR(MakeFolderFor(checkpoint::IndexPath(to), write.sync, write.file_system));
    CASK_RETURN_IF_ERROR(
        checkpoint::CheckTarget(to, {prefix}, "what is to be salvaged", write.overwrite, write.file_system));
  }
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(to, write));
  const auto add = [&](absl::string_view name, const DecodedTensor& tensor, std::optional<PayloadLevel> level) {
    if (keep_going != nullptr && !keep_going()) return absl::CancelledError("told to stop");
    CheckpointAddOptions options;
    options.metadata = tensor.metadata;
    options.layout = StoredLayout::kPreserve;
    options.level = level;
    return writer.Add(name, tensor.view, options);
  };
  CASK_ASSIGN_OR_RETURN(SalvageReport report, Salvage(prefix, read).Run(add));
  if (report.saved == 0 && !report.lost.empty()) return report;
  CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, writer.Replaced());
  CASK_RETURN_IF_ERROR(writer.Finish());
  report.removed = writer.removed_files();
  report.notes = std::move(replaced.notes);
  return report;
}

}  // namespace tensorcask
