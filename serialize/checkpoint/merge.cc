#include "tensorcask/serialize/checkpoint/merge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/old_checkpoint.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/checkpoint/write/remove_temporaries.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"

namespace tensorcask {
namespace {

using checkpoint::BundleIndex;
using checkpoint::EntryField;
using checkpoint::IndexEntry;
using checkpoint::IndexHeader;
using checkpoint::IsPieceKey;
using checkpoint::TableReader;

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

// Where an entry that was decoded before says that its elements are.
struct Place {
  bool in_data_file = true;  // no tensor in pieces
  int32_t shard = 0;
};
Place PlaceOf(absl::string_view entry) {
  Place place;
  WireReader reader(entry);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == EntryField::kSlices && field.type == WireType::kBytes) place.in_data_file = false;
    if (field.number == EntryField::kShardId && field.type == WireType::kVarint) {
      place.shard = static_cast<int32_t>(field.value);
    }
  }
  return place;
}

// The file `path` of a source, which is open only while it is read: a merge may have more sources than a process may
// have open files.
class SourceFile final : public ByteSource {
 public:
  static absl::StatusOr<std::shared_ptr<const ByteSource>> Create(const std::string& path, FileSystem* files) {
    auto source = std::make_shared<SourceFile>(path, files);
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, source->Open());
    source->size_bytes_ = file->size_bytes();
    source->id_ = IdOf(*file);
    return source;
  }
  SourceFile(std::string path, FileSystem* files) : path_(std::move(path)) { read_.file_system = files; }

  const std::string& name() const override { return path_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, Open());
    const FileId id = IdOf(*file);
    if (file->size_bytes() != size_bytes_ || (id.is_known() && id_.is_known() && !id.Is(id_))) {
      return absl::AbortedError(absl::StrCat(path_, ": was replaced while it was read"));
    }
    return file->ReadAt(offset, out);
  }

 private:
  absl::StatusOr<std::shared_ptr<const ByteSource>> Open() const { return OpenFileSource(path_, read_); }
  static FileId IdOf(const ByteSource& file) {
    const std::optional<FileInfo> info = DescribeOpenFile(file);
    return info.has_value() ? info->id : FileId();
  }

  const std::string path_;
  ReadOptions read_;
  uint64_t size_bytes_ = 0;
  FileId id_;
};

// One source, whose entries are visited in order. One block of its index is in memory.
struct Source {
  std::string prefix;
  std::unique_ptr<const BundleIndex> index;
  std::string header_value;
  std::map<int32_t, uint64_t> used_bytes;  // as WalkedIndex::used_bytes
  std::map<int32_t, int> new_shards;       // from shard to shard in the new checkpoint, if entries name it
  std::map<std::string, FileInfo> files;   // with remove_sources: its index and data files, before they were read

  // The visit.
  std::unique_ptr<DecodeQuota> memory;
  std::unique_ptr<TableReader::Cursor> cursor;
  IndexEntry entry;          // at the cursor, if the visit decodes
  uint32_t visited_sum = 0;  // CRC-32C of the keys and values so far
  uint32_t checked_sum = 0;  // CRC-32C of all keys and values, as they were decoded

  absl::string_view key() const { return cursor->key(); }
  absl::string_view value() const { return cursor->value(); }
  const IndexHeader& header() const { return index->header(); }
  bool has_place() const { return entry.entry.slices.empty(); }  // in a data file
};

class Merger {
 public:
  Merger(std::string target, const CheckpointMergeOptions& options) : target_(std::move(target)), options_(options) {}

  // Opens the sources and checks each.
  absl::Status Read(absl::Span<const std::string> paths);
  // Checks that their entries can be joined, and their data files.
  absl::Status Check();
  absl::Status Publish();
  void RemoveSources();
  CheckpointMergeReport report() && { return std::move(report_); }

 private:
  enum class Pass {
    kCheck,    // decodes each entry
    kPublish,  // decodes none. Errors: Aborted, at the end, if a source has other entries than in kCheck
  };
  // Calls fn(sources) for each key of the sources, in order: the sources that have it, each at its entry.
  using Visitor = absl::FunctionRef<absl::Status(absl::Span<Source* const>)>;
  absl::Status ForEachKey(Pass pass, Visitor fn);
  absl::StatusOr<bool> Advance(Pass pass, Source* source) const;
  absl::Status AddSource(const std::string& prefix);
  void Remember(const std::string& path, Source* source) const;
  bool IsUntouched(const Source& source);
  // For a key of several sources: whether its values can be joined, and the joined value.
  absl::Status CheckJoint(absl::Span<Source* const> same) const;
  absl::StatusOr<std::string> Joined(absl::Span<Source* const> same) const;
  absl::Status MergeHeaders(int num_shards, std::string* header) const;
  bool IsBesideTarget(absl::string_view prefix, absl::string_view name) const;
  int AssignShards();

  const std::string target_;
  CheckpointMergeOptions options_;
  std::vector<std::unique_ptr<Source>> sources_;
  bool requires_reader_v2_ = false;  // an entry is extension-only or encoded
  CheckpointMergeReport report_;
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
    const absl::Status status = AddSource(prefix);
    if (absl::IsNotFound(status) && options_.allow_missing) continue;
    CASK_RETURN_IF_ERROR(status);
  }
  if (sources_.empty()) {
    return absl::NotFoundError(absl::StrCat(target_, ": none of ", prefixes.size(), " checkpoints to merge is there; ",
                                            checkpoint::IndexPath(prefixes[0]), " is the first"));
  }
  return absl::OkStatus();
}

absl::Status Merger::AddSource(const std::string& prefix) {
  auto source = std::make_unique<Source>();
  Remember(checkpoint::IndexPath(prefix), source.get());
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file,
                        SourceFile::Create(checkpoint::IndexPath(prefix), options_.file_system));
  source->prefix = prefix;
  CASK_ASSIGN_OR_RETURN(source->index, BundleIndex::Open(std::move(file), options_.limits));
  CASK_RETURN_IF_ERROR(source->index->ForEachEntry([](const CheckpointEntry&) { return absl::OkStatus(); }));
  const auto take_header = [&](absl::string_view value) {
    source->header_value = std::string(value);
    return absl::OkStatus();
  };
  CASK_RETURN_IF_ERROR(source->index->table().Visit("", take_header).status());
  if (!sources_.empty() && sources_[0]->header().big_endian != source->header().big_endian) {
    const bool big = source->header().big_endian;
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, ": is ", big ? "big" : "little", "-endian, and ", sources_[0]->prefix, " is not"));
  }
  sources_.push_back(std::move(source));
  return absl::OkStatus();
}

// Describes a file of a source for RemoveSources. One that cannot be described is not removed.
void Merger::Remember(const std::string& path, Source* source) const {
  if (!options_.remove_sources) return;
  const absl::StatusOr<FileInfo> info = DescribeFile(path, options_.file_system);
  if (info.ok()) source->files[path] = *info;
}

// Moves to the next entry; false after the last one.
absl::StatusOr<bool> Merger::Advance(Pass pass, Source* source) const {
  CASK_ASSIGN_OR_RETURN(bool found, source->cursor->Next());
  if (found && source->key().empty()) {  // the header
    CASK_ASSIGN_OR_RETURN(found, source->cursor->Next());
  }
  if (!found) return false;
  source->visited_sum = ExtendCrc32c(ExtendCrc32c(source->visited_sum, source->key()), source->value());
  if (pass == Pass::kPublish) return true;
  QuotaCharge decoded(source->memory.get());
  absl::Status status = decoded.Add(checkpoint::LargeEntryBytes(source->value()));
  if (status.ok()) {
    status = checkpoint::DecodeEntry(source->value(), source->header().num_shards, options_.limits, &source->entry);
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat(source->index->path(), ": key ", Quoted(source->key())));
  }
  return true;
}

absl::Status Merger::ForEachKey(Pass pass, Visitor fn) {
  // The source with the least key is the first; of equal keys, the source that was named first.
  const auto after = [](const auto& a, const auto& b) {
    const int order = a.second->key().compare(b.second->key());
    return order != 0 ? order > 0 : a.first > b.first;
  };
  std::vector<std::pair<size_t, Source*>> heap;
  const auto push = [&](size_t number) -> absl::Status {
    Source* const source = sources_[number].get();
    CASK_ASSIGN_OR_RETURN(const bool found, Advance(pass, source));
    if (!found) return absl::OkStatus();
    heap.emplace_back(number, source);
    std::push_heap(heap.begin(), heap.end(), after);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = *sources_[i];
    source.memory = absl::WrapUnique(new DecodeQuota(source.index->NewQuota()));
    source.cursor = source.index->table().NewCursor(source.memory.get());
    source.visited_sum = 0;
    CASK_RETURN_IF_ERROR(push(i));
  }
  std::vector<Source*> same;
  std::vector<size_t> numbers;
  while (!heap.empty()) {
    same.clear();
    numbers.clear();
    do {
      std::pop_heap(heap.begin(), heap.end(), after);
      numbers.push_back(heap.back().first);
      same.push_back(heap.back().second);
      heap.pop_back();
    } while (!heap.empty() && heap.front().second->key() == same[0]->key());
    CASK_RETURN_IF_ERROR(fn(same));
    for (const size_t number : numbers) CASK_RETURN_IF_ERROR(push(number));
  }
  for (const std::unique_ptr<Source>& source : sources_) {
    source->cursor = nullptr;  // and its block
    if (pass == Pass::kCheck) source->checked_sum = source->visited_sum;
    if (source->visited_sum == source->checked_sum) continue;
    return absl::AbortedError(absl::StrCat(source->index->path(), ": was changed while it was read"));
  }
  return absl::OkStatus();
}

absl::Status Merger::Check() {
  const auto check = [&](absl::Span<Source* const> same) -> absl::Status {
    for (Source* const source : same) {
      const CheckpointEntry& entry = source->entry.entry;
      requires_reader_v2_ |=
          !source->entry.extension.empty() && entry.form != EntryForm::kPlain && entry.form != EntryForm::kSliced;
      if (!source->has_place()) continue;
      uint64_t& used = source->used_bytes[entry.shard];
      used = std::max(used, entry.offset + entry.stored_bytes);  // below 2^63, DecodeEntry has seen to that
    }
    if (same.size() == 1) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(CheckJoint(same));
    return Joined(same).status();
  };
  CASK_RETURN_IF_ERROR(ForEachKey(Pass::kCheck, check));
  for (const std::unique_ptr<Source>& source : sources_) {
    const int num_shards = source->header().num_shards;
    for (int shard = 0; shard < num_shards; ++shard) {
      Remember(checkpoint::DataPath(source->prefix, shard, num_shards), source.get());
    }
    CASK_RETURN_IF_ERROR(
        checkpoint::CheckDataFiles(source->prefix, num_shards, source->used_bytes, options_.file_system));
  }
  return absl::OkStatus();
}

absl::Status Merger::CheckJoint(absl::Span<Source* const> same) const {
  const Source& first = *same[0];
  if (IsPieceKey(first.key())) {
    CASK_ASSIGN_OR_RETURN(const checkpoint::SliceKey piece, checkpoint::DecodeSliceKey(first.key()));
    return absl::InvalidArgumentError(absl::StrCat("slice ", Quoted(piece.slice.ToString()), " of tensor ",
                                                   Quoted(piece.name), " is in ", first.prefix, " and in ",
                                                   same[1]->prefix));
  }
  const std::string label = absl::StrCat("tensor ", Quoted(first.key()));
  for (const Source* const source : same) {
    if (!source->has_place()) continue;
    const Source& other = source == &first ? *same[1] : first;
    return absl::AlreadyExistsError(absl::StrCat(label, " is in ", source->prefix, " and ",
                                                 other.has_place() ? "in " : "in slices in ", other.prefix));
  }
  TensorSliceSet slices(first.entry.entry.dtype, first.entry.entry.shape);
  for (const Source* const source : same) {
    const CheckpointEntry& entry = source->entry.entry;
    absl::Status status = slices.CheckTensor(entry.dtype, entry.shape);
    if (status.ok() && source->entry.dtype_number != first.entry.dtype_number) {
      status = absl::InvalidArgumentError(
          absl::StrCat("has dtype number ", source->entry.dtype_number, ", not ", first.entry.dtype_number));
    }
    for (size_t i = 0; i < entry.slices.size() && status.ok(); ++i) {
      status = slices.Register(entry.slices[i], source->prefix);
    }
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat(label, " of ", source->prefix, ", of which slices are in ", first.prefix, " too"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Merger::Joined(absl::Span<Source* const> same) const {
  const Source& first = *same[0];
  const uint64_t max_bytes = LimitOf(options_.limits.max_message_bytes);
  std::string fields;
  for (const Source* const source : same) {
    fields += FieldsOf(source->value(), EntryField::kSlices);
    if (fields.size() > max_bytes) break;
  }
  // All other fields of the entry come from the first source.
  std::string value = ReplaceField(first.value(), EntryField::kSlices, fields);
  if (value.size() > max_bytes) {
    return PastLimit(absl::StrCat("tensor ", Quoted(first.key()), " of ", first.prefix, " and others: its entry has ",
                                  value.size(), " bytes or more"),
                     "max_message_bytes", options_.limits.max_message_bytes);
  }
  return value;
}

// Numbers the data files in which something is stored. Returns their count.
int Merger::AssignShards() {
  int count = 0;
  for (const std::unique_ptr<Source>& source : sources_) {
    for (const auto& [shard, used_bytes] : source->used_bytes) source->new_shards[shard] = count++;
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
    if (!proto.ParseFromString(sources_[i]->header_value)) {
      return absl::DataLossError(absl::StrCat(sources_[i]->index->path(), ": the header is not a protobuf message"));
    }
    bad_consumers.insert(proto.version().bad_consumers().begin(), proto.version().bad_consumers().end());
    const int32_t producer = std::max(proto.version().producer(), merged.version().producer());
    const int32_t min_consumer = std::max(proto.version().min_consumer(), merged.version().min_consumer());
    if (i == 0) merged = std::move(proto);
    const std::string& base = sources_[i]->header().base;
    if (!base.empty()) bases.insert(IsBesideTarget(sources_[i]->prefix, base) ? base : "");
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
  std::optional<checkpoint::OldCheckpoint> old;
  if (options_.overwrite) {
    CASK_ASSIGN_OR_RETURN(old, checkpoint::OldCheckpoint::Open(target_, options_.file_system));
    CASK_ASSIGN_OR_RETURN(num_shards, old->ChooseNumShards(num_shards));
  }
  std::string header;
  CASK_RETURN_IF_ERROR(MergeHeaders(num_shards, &header));

  Publication publish({options_.file_system, options_.sync, options_.overwrite});
  for (const std::unique_ptr<Source>& source : sources_) {
    for (const auto& [shard, new_shard] : source->new_shards) {
      CASK_RETURN_IF_ERROR(publish.AddExisting(checkpoint::DataPath(source->prefix, shard, source->header().num_shards),
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
  const auto write = [&](absl::Span<Source* const> same) -> absl::Status {
    const Source& first = *same[0];
    std::string joined;
    if (same.size() > 1) {
      CASK_ASSIGN_OR_RETURN(joined, Joined(same));
    }
    int shard = 0;
    const Place place = PlaceOf(first.value());
    if (place.in_data_file) {
      const auto found = first.new_shards.find(place.shard);
      if (found == first.new_shards.end()) {
        return absl::AbortedError(absl::StrCat(first.index->path(), ": was changed while it was read"));
      }
      shard = found->second;
    }
    return table.Add(first.key(), WithShard(same.size() > 1 ? joined : first.value(), shard));
  };
  CASK_RETURN_IF_ERROR(ForEachKey(Pass::kPublish, write));
  CASK_RETURN_IF_ERROR(table.Finish());

  if (old.has_value()) {
    CASK_RETURN_IF_ERROR(old->CheckUnchanged());
    CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, old->Replaced(num_shards));
    for (const std::string& path : replaced.removed) publish.RemoveAfterwards(path);
    report_.notes = std::move(replaced.notes);
  }
  CASK_RETURN_IF_ERROR(publish.Commit());
  report_.removed = publish.removed();
  return absl::OkStatus();
}

// Whether all files of the source are those that were read. A note tells if not.
bool Merger::IsUntouched(const Source& source) {
  const int num_shards = source.header().num_shards;
  std::vector<std::string> paths = {checkpoint::IndexPath(source.prefix)};
  for (int shard = 0; shard < num_shards; ++shard) {
    paths.push_back(checkpoint::DataPath(source.prefix, shard, num_shards));
  }
  for (const std::string& path : paths) {
    const auto before = source.files.find(path);
    const absl::StatusOr<FileInfo> now = DescribeFile(path, options_.file_system);
    const bool is_missing = absl::IsNotFound(now.status());
    const bool is_same = before == source.files.end() ? is_missing : now.ok() && IsUnchanged(before->second, *now);
    if (is_same) continue;
    report_.notes.push_back(absl::StrCat(source.prefix, " is not removed: ", path, " was ",
                                         is_missing ? "removed" : "replaced", " during the merge"));
    return false;
  }
  return true;
}

// The index goes first: without it the data files are no longer a checkpoint. A data file stays if the merge did not
// link it to the new checkpoint, unless it is empty.
void Merger::RemoveSources() {
  FileSystem* const files = options_.file_system;
  const auto remove = [&](const std::string& path) {
    const bool is_removed = RemoveFile(path, files).ok();
    if (is_removed) report_.removed.push_back(path);
    return is_removed;
  };
  for (const std::unique_ptr<Source>& source : sources_) {
    if (!IsUntouched(*source) || !remove(checkpoint::IndexPath(source->prefix))) continue;
    if (options_.sync && !SyncFolder(FolderOf(source->prefix), files).ok()) continue;
    const int num_shards = source->header().num_shards;
    for (int shard = 0; shard < num_shards; ++shard) {
      const std::string path = checkpoint::DataPath(source->prefix, shard, num_shards);
      const auto found = source->files.find(path);
      if (found == source->files.end()) continue;
      if (source->new_shards.count(shard) != 0 || found->second.size_bytes == 0) {
        remove(path);
      } else {
        report_.notes.push_back(absl::StrCat(path, " stays: no tensor is in it"));
      }
    }
  }
}

}  // namespace

absl::StatusOr<CheckpointMergeReport> MergeCheckpoints(absl::Span<const std::string> sources, const std::string& target,
                                                       const CheckpointMergeOptions& options) {
  Merger merger(target, options);
  CASK_RETURN_IF_ERROR(merger.Read(sources));
  CASK_RETURN_IF_ERROR(merger.Check());
  CASK_RETURN_IF_ERROR(merger.Publish());
  if (options.remove_sources) merger.RemoveSources();
  return std::move(merger).report();
}

}  // namespace tensorcask
