#include "tensorcask/serialize/checkpoint/salvage.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/checkpoint/bundle_index.h"
#include "tensorcask/serialize/checkpoint/bundle_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/entry_codec.h"
#include "tensorcask/serialize/checkpoint/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/naming.h"
#include "tensorcask/serialize/checkpoint/reader_impl.h"
#include "tensorcask/serialize/checkpoint/slice_key.h"
#include "tensorcask/serialize/checkpoint/status_place.h"
#include "tensorcask/serialize/checkpoint/table_salvage.h"
#include "tensorcask/serialize/checkpoint/table_writer.h"
#include "tensorcask/serialize/checkpoint/target_check.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/retry.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/process_error.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

using checkpoint::EntryField;
using checkpoint::In;
using checkpoint::IndexEntry;
using checkpoint::IsPieceKey;

// What an entry looks like, whatever it says: known fields only, of the right types, a shape among them.
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

// What keeps us from looking, rather than what is wrong with a tensor. A disk that does not give back what was written
// costs the tensors that it holds.
bool KeepsFromLooking(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsCancelled(status) || absl::IsUnauthenticated(status) ||
         internal::IsProcessError(status);
}

// At which an encoded tensor is to be encoded again.
std::optional<PayloadLevel> LevelOf(const CheckpointEntry& entry) {
  if (entry.payload == nullptr) return std::nullopt;
  const auto level = static_cast<PayloadLevel>(entry.payload->level);
  return level <= PayloadLevel::kHigh ? level : PayloadLevel::kDefault;
}

// The name of the tensor that `key` is about: that of a piece has it inside.
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
  };

  FileSystem* files() const {
    return options_.read.file_system != nullptr ? options_.read.file_system : FileSystem::Posix();
  }

  // The first reason counts.
  void Lose(const std::string& name, const std::string& file, uint64_t offset, const absl::Status& status) {
    lost_.emplace(name, CheckpointDamage{name, file, offset, status});
  }
  void LoseEntry(const std::string& name, const absl::Status& status) {
    Lose(name, index_path_, 0, In(absl::StrCat(index_path_, ": tensor ", Quoted(name)), status));
  }

  // Sets repaired_ to an index of all entries that are whole, and items_, piece_owners_ and ranges_ to what it holds.
  absl::Status RepairIndex() {
    ReadOptions read;
    read.file_system = options_.read.file_system;
    const auto max_bytes = static_cast<uint64_t>(std::max<int64_t>(options_.limits.max_message_bytes, 0));
    CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> file,
                          ReadWholeFile(index_path_, std::min<uint64_t>(max_bytes, UINT32_MAX), read));
    StringSink sink(&repaired_);
    checkpoint::TableWriter table(&sink, {});
    absl::Status status;
    checkpoint::KeyBudget budget(index_path_, file->bytes().size(), options_.limits);
    checkpoint::SalvageTable(
        file->bytes(), options_.limits, LooksLikeEntry,
        [&](absl::string_view key, absl::string_view value) {
          if (status.ok()) status = budget.Take(key);
          if (status.ok() && !num_shards_.has_value()) status = TakeHeader(key, value, &table);
          if (status.ok() && !key.empty()) status = TakeEntry(key, value, &table);
        },
        [&](const checkpoint::LostRange& lost) { LoseRange(lost); });
    CASK_RETURN_IF_ERROR(status);
    if (!num_shards_.has_value()) CASK_RETURN_IF_ERROR(TakeHeader("x", "", &table));  // nothing is whole
    return table.Finish();
  }

  // Called with the first key there is, which is the empty one of the header unless that is lost.
  absl::Status TakeHeader(absl::string_view key, absl::string_view value, checkpoint::TableWriter* table) {
    if (key.empty()) {
      const absl::StatusOr<checkpoint::IndexHeader> header = checkpoint::DecodeHeader(value);
      if (header.ok()) {
        num_shards_ = header->num_shards;
        return table->Add("", value);
      }
      if (!absl::IsDataLoss(header.status())) return In(index_path_, header.status());
    }
    CASK_ASSIGN_OR_RETURN(num_shards_, CountDataFiles());
    return table->Add("", checkpoint::EncodeHeader(std::max(*num_shards_, 1), /*for_us=*/true));
  }

  // How many data files the names of those in the folder speak of; 0 if they do not agree, or there are none.
  absl::StatusOr<int> CountDataFiles() {
    const std::string folder = FolderOf(prefix_);
    std::vector<std::string> names;
    const IoResult listed = internal::RetryInterrupted([&] { return files()->List(folder, &names); });
    if (listed < 0) return IoError(listed, folder, "list");
    const size_t slash = prefix_.rfind('/');
    const std::string base = slash == std::string::npos ? prefix_ : prefix_.substr(slash + 1);
    std::set<int> counts;
    for (const std::string& name : names) {
      const std::optional<checkpoint::DataName> data = checkpoint::ParseDataName(name);
      if (data.has_value() && data->prefix == base) counts.insert(data->num_shards);
    }
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
    if (const absl::Status status = checkpoint::DecodeEntry(value, *num_shards_, &index); !status.ok()) {
      LoseEntry(name, status);
      return absl::OkStatus();
    }
    const CheckpointEntry& entry = index.entry;
    if (entry.form != EntryForm::kSliced && entry.stored_bytes > 0) {
      ranges_.push_back(checkpoint::RangeOf(entry, items_.size()));
    }
    items_.push_back({name, entry.shard, entry.offset});
    if (IsPieceKey(key)) piece_owners_.insert(name);
    is_tensor_.push_back(!IsPieceKey(key));
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
                 ? absl::StrCat(index_path_, ": at byte ", lost.offset,
                                " something is cut off: tensors may be missing whose names are not known")
                 : absl::StrCat(where, " are damaged; of the tensors in there, ", lost.keys.size(),
                                lost.keys.size() == 1 ? " name" : " names", " can still be told"))});
    lost_ranges_.push_back(lost);
  }

  absl::Status ReadTensors(Take take) {
    // One range of a file under a million names would be read a million times.
    checkpoint::FindOverlaps(std::move(ranges_), options_.limits, [&](size_t former, size_t latter) {
      const Item& item = items_[latter];
      LoseEntry(item.name, absl::DataLossError(absl::StrCat("its bytes at offset ", item.offset, " of ",
                                                            checkpoint::DataPath(prefix_, item.shard, *num_shards_),
                                                            " begin inside those of ", Quoted(items_[former].name))));
    });
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<const checkpoint::ReaderImpl> reader,
                          checkpoint::OpenBundle(prefix_, MakeMemorySource(index_path_, repaired_), options_,
                                                 CheckpointReader::ImplOf(options_.base)));
    std::vector<Item> tensors;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!is_tensor_[i] || lost_.count(items_[i].name) == 1) continue;
      piece_owners_.erase(items_[i].name);
      const absl::StatusOr<CheckpointEntry> entry = reader->Find(items_[i].name);  // of a sliced one, its first piece
      if (entry.ok()) {
        tensors.push_back({items_[i].name, entry->shard, entry->offset, LevelOf(*entry)});
      } else if (KeepsFromLooking(entry.status())) {
        return entry.status();
      } else {
        Lose(items_[i].name, index_path_, 0, entry.status());
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
      } else if (KeepsFromLooking(tensor.status())) {
        return tensor.status();
      } else {
        Lose(item.name, reader->DataPath(item.shard), item.offset, tensor.status());
      }
    }
    return absl::OkStatus();
  }

  void NameTheRest() {
    for (const checkpoint::LostRange& lost : lost_ranges_) {
      for (const std::string& key : lost.keys) {
        const std::string name = TensorOf(key);
        if (saved_.count(name) != 0) continue;
        Lose(name, index_path_, lost.offset,
             absl::DataLossError(absl::StrCat(Where(lost), " are damaged, and tensor ", Quoted(name), " stood there")));
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
  std::optional<int> num_shards_;  // 0: nobody can tell
  std::vector<Item> items_;        // the entries of the repaired index
  std::vector<bool> is_tensor_;    // of items_; false for a piece
  std::set<std::string> piece_owners_;
  std::vector<checkpoint::StoredRange> ranges_;
  std::set<std::string> saved_;
  std::map<std::string, CheckpointDamage> lost_;    // by name
  std::vector<checkpoint::LostRange> lost_ranges_;  // with the keys that damaged bytes name
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
  const auto files = [](FileSystem* given) { return given != nullptr ? given : FileSystem::Posix(); };
  if (write.overwrite && files(write.file_system) == files(read.read.file_system)) {
    CASK_RETURN_IF_ERROR(checkpoint::CheckNewPrefix(to));
    CASK_RETURN_IF_ERROR(
        checkpoint::CheckTarget(to, {prefix}, "what is to be salvaged", write.overwrite, files(write.file_system)));
  }
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(to, write));
  const auto add = [&](absl::string_view name, const DecodedTensor& tensor, std::optional<PayloadLevel> level) {
    if (keep_going != nullptr && !keep_going()) return absl::CancelledError("told to stop");
    AddOptions options;
    options.metadata = tensor.metadata;
    options.layout = StoredLayout::kPreserve;
    options.level = level;
    return writer.Add(name, tensor.view, options);
  };
  CASK_ASSIGN_OR_RETURN(SalvageReport report, Salvage(prefix, read).Run(add));
  if (report.saved > 0 || report.lost.empty()) CASK_RETURN_IF_ERROR(writer.Finish());
  return report;
}

}  // namespace tensorcask
