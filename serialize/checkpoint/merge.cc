#include "tensorcask/serialize/checkpoint/merge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/choose_num_shards.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/checkpoint/write/remove_temporaries.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"

namespace tensorcask {
namespace {

using checkpoint::EntryField;
using checkpoint::IndexEntry;
using checkpoint::IsPieceKey;
using checkpoint::WalkedIndex;

constexpr size_t kIndexBlockBytes = size_t{16} << 10;  // as CheckpointWriterOptions::index_block_bytes

// Returns `message`, which is well formed, with `fields` in place of the fields of `number`. They are inserted in the
// order of field numbers if the other fields are in that order.
std::string ReplaceField(absl::string_view message, uint32_t number, absl::string_view fields) {
  std::string out;
  out.reserve(message.size() + fields.size());
  bool placed = false;
  const auto append = [&](absl::string_view bytes) { out.append(bytes.data(), bytes.size()); };
  WireReader reader(message);
  WireReader::Field field;
  bool more = reader.Next(&field);
  while (more) {
    const uint32_t this_number = field.number;
    const uint64_t begin = field.position;
    more = reader.Next(&field);
    const uint64_t end = more ? field.position : message.size();
    if (!placed && this_number > number) {
      append(fields);
      placed = true;
    }
    if (this_number != number) append(message.substr(begin, end - begin));
  }
  if (!placed) append(fields);
  return out;
}

// The bytes of all fields of that number, unchanged.
std::string FieldsOf(absl::string_view message, uint32_t number) {
  std::string out;
  WireReader reader(message);
  WireReader::Field field;
  bool more = reader.Next(&field);
  while (more) {
    const bool wanted = field.number == number;
    const uint64_t begin = field.position;
    more = reader.Next(&field);
    const uint64_t end = more ? field.position : message.size();
    if (wanted) out.append(message.data() + begin, end - begin);
  }
  return out;
}

std::string WithShard(absl::string_view entry, int shard) {
  std::string field;
  if (shard != 0) {
    AppendVarint(EntryField::kShardId << 3 | static_cast<uint32_t>(WireType::kVarint), &field);
    AppendVarint(static_cast<uint64_t>(shard), &field);
  }
  return ReplaceField(entry, EntryField::kShardId, field);
}

class Merger {
 public:
  Merger(std::string target, const CheckpointMergeOptions& options) : target_(std::move(target)), options_(options) {}

  absl::Status Read(absl::Span<const std::string> paths);
  // Joins entries of the same name, or returns an error if they cannot be joined.
  absl::Status Join();
  absl::Status Publish();
  void RemoveSources();

 private:
  struct Source {
    std::string prefix;
    WalkedIndex index;
    std::map<int32_t, int> new_shards;  // from shard to shard in the new checkpoint, if entries name it
  };
  // A key and its value, as ranges of bytes_. (Two strings each would take twice the memory.)
  struct Item {
    size_t offset = 0;
    uint32_t key_bytes = 0;
    uint32_t value_bytes = 0;
    int32_t shard = 0;    // of the source
    uint32_t source = 0;  // number in sources_
    bool has_place = true;
  };

  absl::Status ReadSource(const std::string& prefix);
  void AddItem(absl::string_view key, absl::string_view value, const IndexEntry& entry);
  absl::Status JoinItems(absl::Span<const Item> same, std::vector<Item>* joined);
  absl::Status MergeHeaders(int num_shards, std::string* header) const;
  bool IsBesideTarget(absl::string_view prefix, absl::string_view name) const;
  int AssignShards();

  absl::string_view KeyOf(const Item& item) const {
    return absl::string_view(bytes_).substr(item.offset, item.key_bytes);
  }
  absl::string_view ValueOf(const Item& item) const {
    return absl::string_view(bytes_).substr(item.offset + item.key_bytes, item.value_bytes);
  }
  const std::string& PrefixOf(const Item& item) const { return sources_[item.source].prefix; }

  const std::string target_;
  CheckpointMergeOptions options_;
  std::vector<Source> sources_;
  std::string bytes_;
  std::vector<Item> items_;
  uint64_t kept_bytes_ = 0;          // of both
  uint64_t index_bytes_ = 0;         // of all sources
  bool requires_reader_v2_ = false;  // an entry is extension-only or encoded
};

absl::Status Merger::Read(absl::Span<const std::string> paths) {
  CASK_RETURN_IF_ERROR(checkpoint::CheckNewPrefix(target_));
  if (paths.empty()) return absl::InvalidArgumentError(absl::StrCat(target_, ": no checkpoints to merge"));
  std::vector<std::string> prefixes;
  for (const std::string& path : paths) {
    CASK_ASSIGN_OR_RETURN(std::string prefix, checkpoint::PrefixOfPath(path));
    prefixes.push_back(std::move(prefix));
  }
  CASK_RETURN_IF_ERROR(MakeFolderFor(checkpoint::IndexPath(target_), options_.sync, options_.file_system));
  checkpoint::RemoveTemporariesOf(target_, /*always=*/true, options_.file_system);
  CASK_RETURN_IF_ERROR(checkpoint::CheckTarget(target_, prefixes, "one of the checkpoints to merge", options_.overwrite,
                                               options_.file_system));
  for (const std::string& prefix : prefixes) {
    const absl::Status status = ReadSource(prefix);
    if (absl::IsNotFound(status) && options_.allow_missing) continue;
    CASK_RETURN_IF_ERROR(status);
  }
  if (sources_.empty()) {
    return absl::NotFoundError(absl::StrCat(target_, ": none of ", prefixes.size(), " checkpoints to merge is there; ",
                                            checkpoint::IndexPath(prefixes[0]), " is the first"));
  }
  return absl::OkStatus();
}

absl::Status Merger::ReadSource(const std::string& prefix) {
  index_bytes_ += DescribeFile(checkpoint::IndexPath(prefix), options_.file_system).value_or(FileInfo()).size_bytes;
  // A regular index takes about four times its size in memory here.
  DecodeQuota memory = DecodeQuota::ForUnbacked(options_.limits, 16 * index_bytes_, kept_bytes_);
  const auto number = static_cast<uint32_t>(sources_.size());
  const auto take = [&](absl::string_view key, absl::string_view value, const IndexEntry& index) -> absl::Status {
    // Charged twice, because bytes_ and items_ exist twice while they grow.
    CASK_ANNOTATE_IF_ERROR(memory.Charge(2 * (sizeof(Item) + key.size() + value.size())),
                           absl::StrCat(prefix, ": ", items_.size(), " entries to merge"));
    Item item;
    item.offset = bytes_.size();
    item.key_bytes = static_cast<uint32_t>(key.size());  // 32 bits are the table's limit
    item.value_bytes = static_cast<uint32_t>(value.size());
    item.shard = index.entry.shard;
    item.source = number;
    item.has_place = index.entry.slices.empty();
    bytes_.append(key.data(), key.size());
    bytes_.append(value.data(), value.size());
    items_.push_back(item);
    requires_reader_v2_ |=
        !index.extension.empty() && index.entry.form != EntryForm::kPlain && index.entry.form != EntryForm::kSliced;
    return absl::OkStatus();
  };
  CASK_ASSIGN_OR_RETURN(WalkedIndex index, checkpoint::WalkIndex(prefix, options_.file_system, options_.limits, take));
  if (!sources_.empty() && sources_[0].index.header.big_endian != index.header.big_endian) {
    const bool big = index.header.big_endian;
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, ": is ", big ? "big" : "little", "-endian, and ", sources_[0].prefix, " is not"));
  }
  kept_bytes_ = memory.charged();
  sources_.push_back({prefix, std::move(index), {}});
  return absl::OkStatus();
}

absl::Status Merger::Join() {
  const auto before = [&](const Item& a, const Item& b) {
    const int order = KeyOf(a).compare(KeyOf(b));
    return order != 0 ? order < 0 : a.source < b.source;
  };
  std::sort(items_.begin(), items_.end(), before);
  std::vector<Item> joined;
  joined.reserve(items_.size());
  for (size_t i = 0; i < items_.size();) {
    size_t end = i + 1;
    while (end < items_.size() && KeyOf(items_[end]) == KeyOf(items_[i])) ++end;
    if (end == i + 1) {
      joined.push_back(items_[i]);
    } else {
      CASK_RETURN_IF_ERROR(JoinItems(absl::MakeConstSpan(items_).subspan(i, end - i), &joined));
    }
    i = end;
  }
  items_ = std::move(joined);
  return absl::OkStatus();
}

// `same` are two or more items of one key.
absl::Status Merger::JoinItems(absl::Span<const Item> same, std::vector<Item>* joined) {
  const Item& first = same[0];
  const std::string key(KeyOf(first));  // bytes_ will grow
  if (IsPieceKey(key)) {
    CASK_ASSIGN_OR_RETURN(const checkpoint::SliceKey piece, checkpoint::DecodeSliceKey(key));
    return absl::InvalidArgumentError(absl::StrCat("slice ", Quoted(piece.slice.ToString()), " of tensor ",
                                                   Quoted(piece.name), " is in ", PrefixOf(first), " and in ",
                                                   PrefixOf(same[1])));
  }
  const std::string label = absl::StrCat("tensor ", Quoted(key));
  for (const Item& item : same) {
    if (!item.has_place) continue;
    const Item& other = &item == &first ? same[1] : first;
    return absl::AlreadyExistsError(absl::StrCat(label, " is in ", PrefixOf(item), " and ",
                                                 other.has_place ? "in " : "in slices in ", PrefixOf(other)));
  }
  std::optional<TensorSliceSet> slices;
  IndexEntry whole;
  std::string fields;
  for (const Item& item : same) {
    IndexEntry index;
    CASK_RETURN_IF_ERROR(
        checkpoint::DecodeEntry(ValueOf(item), sources_[item.source].index.header.num_shards, options_.limits, &index));
    if (!slices.has_value()) {
      slices.emplace(index.entry.dtype, index.entry.shape);
      whole.dtype_number = index.dtype_number;
    }
    absl::Status status = slices->CheckTensor(index.entry.dtype, index.entry.shape);
    if (status.ok() && index.dtype_number != whole.dtype_number) {
      status = absl::InvalidArgumentError(
          absl::StrCat("has dtype number ", index.dtype_number, ", not ", whole.dtype_number));
    }
    for (size_t i = 0; i < index.entry.slices.size() && status.ok(); ++i) {
      status = slices->Register(index.entry.slices[i], PrefixOf(item));
    }
    if (!status.ok()) {
      return Annotate(
          status, absl::StrCat(label, " of ", PrefixOf(item), ", of which slices are in ", PrefixOf(first), " too"));
    }
    fields += FieldsOf(ValueOf(item), EntryField::kSlices);
  }
  // All other fields of the entry come from the first source.
  const std::string value = ReplaceField(ValueOf(first), EntryField::kSlices, fields);
  const int64_t max_bytes = std::min<int64_t>(options_.limits.max_message_bytes, UINT32_MAX);  // the latter for Item
  if (value.size() > static_cast<uint64_t>(std::max<int64_t>(max_bytes, 0))) {
    return absl::ResourceExhaustedError(absl::StrCat(label, " of ", PrefixOf(first), " and others: its entry has ",
                                                     value.size(), " bytes, past max_message_bytes ", max_bytes));
  }
  Item item = first;
  item.offset = bytes_.size();
  item.value_bytes = static_cast<uint32_t>(value.size());
  absl::StrAppend(&bytes_, key, value);
  joined->push_back(item);
  return absl::OkStatus();
}

// Numbers the data files in which something is stored. Returns their count.
int Merger::AssignShards() {
  int count = 0;
  for (Source& source : sources_) {
    for (const auto& [shard, used_bytes] : source.index.used_bytes) source.new_shards[shard] = count++;
  }
  return count;
}

// True if the checkpoint called `name` beside that at `prefix` lies in the folder of the target, whatever path that
// has.
bool Merger::IsBesideTarget(absl::string_view prefix, absl::string_view name) const {
  const auto index_of = [&](const std::string& of) {
    return DescribeFile(checkpoint::IndexPath(of), options_.file_system).value_or(FileInfo());
  };
  return FolderOf(prefix) == FolderOf(target_) ||
         index_of(checkpoint::PrefixBeside(prefix, name)).id.Is(index_of(checkpoint::PrefixBeside(target_, name)).id);
}

// Copies the first header, so that its unknown fields stay, with versions that exclude every reader that a source
// excludes.
absl::Status Merger::MergeHeaders(int num_shards, std::string* header) const {
  BundleHeaderProto merged;
  std::set<int32_t> bad_consumers;
  std::set<std::string> bases;
  for (size_t i = 0; i < sources_.size(); ++i) {
    BundleHeaderProto proto;
    if (!proto.ParseFromString(sources_[i].index.header_value)) {
      return absl::DataLossError(
          absl::StrCat(checkpoint::IndexPath(sources_[i].prefix), ": the header is not a protobuf message"));
    }
    bad_consumers.insert(proto.version().bad_consumers().begin(), proto.version().bad_consumers().end());
    const int32_t producer = std::max(proto.version().producer(), merged.version().producer());
    const int32_t min_consumer = std::max(proto.version().min_consumer(), merged.version().min_consumer());
    if (i == 0) merged = std::move(proto);
    const std::string& base = sources_[i].index.header.base;
    if (!base.empty()) bases.insert(IsBesideTarget(sources_[i].prefix, base) ? base : "");
    merged.mutable_version()->set_producer(producer);
    merged.mutable_version()->set_min_consumer(min_consumer);
  }
  VersionDef* const version = merged.mutable_version();
  if (requires_reader_v2_) version->set_min_consumer(std::max(version->min_consumer(), checkpoint::kConsumerVersion));
  // A source with this min_consumer has the mark, or it would have been refused.
  if (version->min_consumer() >= checkpoint::kConsumerVersion) {
    merged.mutable_extension()->set_reader_version(checkpoint::kConsumerVersion);
  }
  if (bases.size() == 1) merged.mutable_extension()->set_base(*bases.begin());
  if (bases.size() > 1) merged.mutable_extension()->clear_base();  // no name tells them all
  version->clear_bad_consumers();
  for (const int32_t consumer : bad_consumers) version->add_bad_consumers(consumer);
  merged.set_num_shards(num_shards);
  return merged.SerializeToString(header)
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(target_, ": the header cannot be written"));
}

absl::Status Merger::Publish() {
  const int used_shards = AssignShards();
  if (used_shards > checkpoint::kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat(target_, ": would have ", used_shards, " data files, more than ", checkpoint::kMaxShards));
  }
  int num_shards = std::max(used_shards, 1);  // as a writer without tensors
  if (options_.overwrite) {
    CASK_ASSIGN_OR_RETURN(num_shards, checkpoint::ChooseNumShards(target_, num_shards, options_.file_system));
  }
  std::string header;
  CASK_RETURN_IF_ERROR(MergeHeaders(num_shards, &header));

  Publication publish({options_.file_system, options_.sync, options_.overwrite});
  for (const Source& source : sources_) {
    for (const auto& [shard, new_shard] : source.new_shards) {
      CASK_RETURN_IF_ERROR(
          publish.AddExisting(checkpoint::DataPath(source.prefix, shard, source.index.header.num_shards),
                              checkpoint::DataPath(target_, new_shard, num_shards)));
    }
  }
  for (int shard = used_shards; shard < num_shards; ++shard) {
    CASK_RETURN_IF_ERROR(publish.Add(checkpoint::DataPath(target_, shard, num_shards)).status());
  }

  CASK_ASSIGN_OR_RETURN(FileSink * sink, publish.Add(checkpoint::IndexPath(target_)));
  checkpoint::TableOptions table_options;
  table_options.block_bytes = kIndexBlockBytes;
  checkpoint::TableWriter table(sink, table_options);
  CASK_RETURN_IF_ERROR(table.Add("", header));
  for (const Item& item : items_) {
    const int shard = item.has_place ? sources_[item.source].new_shards.at(item.shard) : 0;
    CASK_RETURN_IF_ERROR(table.Add(KeyOf(item), WithShard(ValueOf(item), shard)));
  }
  CASK_RETURN_IF_ERROR(table.Finish());

  if (options_.overwrite) {
    CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, checkpoint::ReplacedCheckpoint(target_, options_.file_system));
    for (const std::string& path : replaced.removed) publish.RemoveAfterwards(path);
  }
  return publish.Commit();
}

// The index goes first: without it the data files are no longer a checkpoint.
void Merger::RemoveSources() {
  for (const Source& source : sources_) {
    FileSystem* const files = options_.file_system;
    if (!RemoveFile(checkpoint::IndexPath(source.prefix), files).ok()) continue;
    if (options_.sync && !SyncFolder(FolderOf(source.prefix), files).ok()) continue;
    const int num_shards = source.index.header.num_shards;
    for (int shard = 0; shard < num_shards; ++shard) {
      RemoveFile(checkpoint::DataPath(source.prefix, shard, num_shards), files).IgnoreError();
    }
  }
}

}  // namespace

absl::Status MergeCheckpoints(absl::Span<const std::string> sources, const std::string& target,
                              const CheckpointMergeOptions& options) {
  Merger merger(target, options);
  CASK_RETURN_IF_ERROR(merger.Read(sources));
  CASK_RETURN_IF_ERROR(merger.Join());
  CASK_RETURN_IF_ERROR(merger.Publish());
  if (options.remove_sources) merger.RemoveSources();
  return absl::OkStatus();
}

}  // namespace tensorcask
