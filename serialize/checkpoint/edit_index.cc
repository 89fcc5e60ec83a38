#include "tensorcask/serialize/checkpoint/edit_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/index_walk.h"
#include "tensorcask/serialize/checkpoint/internal/target_check.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::checkpoint {
namespace {

constexpr char kGraphName[] = "_CHECKPOINTABLE_OBJECT_GRAPH";
constexpr size_t kIndexBlockBytes = size_t{16} << 10;  // as CheckpointWriterOptions::index_block_bytes

class IndexEditor {
 public:
  IndexEditor(const FileEdits& edits, const FileEditOptions& options) : edits_(edits), options_(options) {}

  absl::StatusOr<FileEditResult> Run(const std::string& path) {
    CASK_ASSIGN_OR_RETURN(prefix_, PrefixOfPath(path));
    CASK_RETURN_IF_ERROR(CheckFormat(path));
    ReadOptions read;
    read.file_system = options_.file_system;
    CASK_ASSIGN_OR_RETURN(index_file_, OpenFileSource(IndexPath(prefix_), read));
    CASK_RETURN_IF_ERROR(CheckNames());
    CASK_RETURN_IF_ERROR(CheckGraph());
    CASK_RETURN_IF_ERROR(Read());
    CASK_RETURN_IF_ERROR(MakeIndex());
    CASK_RETURN_IF_ERROR(Publish());
    return std::move(result_);
  }

 private:
  struct Item {
    std::string key;
    std::string value;
  };
  using Range = std::pair<int32_t, uint64_t>;  // shard and offset

  absl::Status CheckFormat(const std::string& path) const;
  absl::Status CheckNames() const;
  absl::Status CheckGraph() const;
  absl::Status Read();
  absl::Status NoteDamagedFiles();
  absl::Status AddItem(absl::string_view key, absl::string_view value, const IndexEntry& index);
  absl::Status CheckMayBeRenamed(const std::string& name, const IndexEntry& index) const;
  absl::Status MakeIndex();
  absl::Status Publish();

  std::string Label(absl::string_view name) const { return absl::StrCat(prefix_, ": tensor ", Quoted(name)); }
  absl::StatusOr<bool> Exists(const std::string& path) const {
    const absl::Status there = DescribeFile(path, options_.file_system).status();
    if (!there.ok() && !absl::IsNotFound(there)) return there;
    return there.ok();
  }

  const FileEdits& edits_;
  const FileEditOptions& options_;
  std::string prefix_;
  std::shared_ptr<const ByteSource> index_file_;  // open since before it is read
  WalkedIndex index_;
  std::vector<Item> items_;
  std::set<Range> kept_ranges_;  // the ranges of encoded entries, which may share their bytes
  std::vector<std::pair<Range, uint64_t>> removed_ranges_;
  std::string text_;  // that of the new index
  FileEditResult result_;
};

absl::Status IndexEditor::CheckFormat(const std::string& path) const {
  if (!edits_.set_metadata.empty() || !edits_.unset_metadata.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix_, ": a checkpoint cannot hold metadata of the file"));
  }
  CASK_ASSIGN_OR_RETURN(const bool has_index, Exists(IndexPath(prefix_)));
  if (has_index) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const bool has_file, Exists(path));
  if (!has_file) return absl::OkStatus();  // reading names the missing index
  return absl::UnimplementedError(
      absl::StrCat(path, ": is a V1 checkpoint, whose names lie among the elements; convert it, and edit the result"));
}

absl::Status IndexEditor::CheckNames() const {
  for (const auto& [from, to] : edits_.renames) {
    CASK_ANNOTATE_IF_ERROR(CheckTensorName(to), prefix_);
    if (from == kGraphName || to == kGraphName) {
      return absl::InvalidArgumentError(absl::StrCat(Label(from), " cannot be called ", Quoted(to),
                                                     ": TensorFlow finds the object graph by the name ", kGraphName));
    }
  }
  return absl::OkStatus();
}

// TensorFlow restores objects by the names in the graph, which is itself a tensor in a data file.
absl::Status IndexEditor::CheckGraph() const {
  if (edits_.removed.count(kGraphName) != 0) return absl::OkStatus();
  CheckpointReaderOptions read;
  read.read.file_system = options_.file_system;
  read.limits = options_.limits;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix_, read));
  const absl::StatusOr<ObjectGraph> graph = ReadObjectGraph(reader);
  if (absl::IsNotFound(graph.status())) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(graph.status());
  for (const ObjectGraph::Node& node : graph->nodes) {
    for (const ObjectGraph::Attribute& attribute : node.attributes) {
      const std::string& name = attribute.checkpoint_key;
      if (edits_.renames.count(name) == 0 && edits_.removed.count(name) == 0) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          Label(name),
          " is named by the checkpoint's object graph, by which TensorFlow restores objects, and must stay; a "
          "conversion changes the graph, too; or remove also the graph (tensor ",
          kGraphName, ") for a checkpoint that is only read by names"));
    }
  }
  return absl::OkStatus();
}

absl::Status IndexEditor::Read() {
  const std::string path = IndexPath(prefix_);
  const FileInfo info = DescribeFile(path, options_.file_system).value_or(FileInfo());
  // A regular index takes about four times its size in memory here.
  DecodeQuota memory = DecodeQuota::ForUnbacked(options_.limits, 16 * info.size_bytes);
  const auto take = [&](absl::string_view key, absl::string_view value, const IndexEntry& index) -> absl::Status {
    CASK_ANNOTATE_IF_ERROR(memory.Charge(2 * (sizeof(Item) + key.size() + value.size())),
                           absl::StrCat(path, ": ", items_.size(), " entries"));
    return AddItem(key, value, index);
  };
  CASK_ASSIGN_OR_RETURN(index_, WalkEntries(prefix_, options_.file_system, options_.limits, take));
  for (const auto& [range, bytes] : removed_ranges_) {
    if (kept_ranges_.insert(range).second) result_.unused_bytes += bytes;
  }
  return NoteDamagedFiles();
}

absl::Status IndexEditor::NoteDamagedFiles() {
  constexpr size_t kMaxNamed = 100;
  CASK_ASSIGN_OR_RETURN(std::vector<std::string> damaged, DamagedDataFiles(prefix_, index_, options_.file_system));
  const size_t count = damaged.size();
  if (count == 0) return absl::OkStatus();
  damaged.resize(std::min(count, kMaxNamed));
  for (std::string& path : damaged) path.erase(0, path.rfind('/') + 1);
  result_.notes.push_back(
      absl::StrCat(count, " of the ", index_.header.num_shards, " data files ", count == 1 ? "is" : "are",
                   " missing or too short: ", absl::StrJoin(damaged, ", "), count > kMaxNamed ? ", ..." : ""));
  return absl::OkStatus();
}

absl::Status IndexEditor::AddItem(absl::string_view key, absl::string_view value, const IndexEntry& index) {
  SliceKey piece;
  const bool is_piece = IsPieceKey(key);
  if (is_piece) {
    CASK_ASSIGN_OR_RETURN(piece, DecodeSliceKey(key));
  } else {
    piece.name = std::string(key);
  }
  const bool has_bytes = index.entry.slices.empty();
  const Range range(index.entry.shard, index.entry.offset);
  if (edits_.removed.count(piece.name) != 0) {
    if (has_bytes) removed_ranges_.emplace_back(range, index.entry.stored_bytes);
    return absl::OkStatus();
  }
  if (has_bytes && index.entry.form == EntryForm::kEncoded) kept_ranges_.insert(range);
  Item item{std::string(key), std::string(value)};
  const auto renamed = edits_.renames.find(piece.name);
  if (renamed != edits_.renames.end()) {
    CASK_RETURN_IF_ERROR(CheckMayBeRenamed(piece.name, index));
    item.key = is_piece ? EncodeSliceKey(renamed->second, piece.slice) : renamed->second;
  }
  items_.push_back(std::move(item));
  return absl::OkStatus();
}

absl::Status IndexEditor::CheckMayBeRenamed(const std::string& name, const IndexEntry& index) const {
  const bool is_delta = index.entry.payload != nullptr && index.entry.payload->is_delta;
  if (is_delta) {
    return absl::FailedPreconditionError(
        absl::StrCat(Label(name),
                     " is a delta: its base is the tensor of the same name in another checkpoint, so it "
                     "must keep its name; convert it to a whole tensor first"));
  }
  if (!index.readable.ok()) return Annotate(index.readable, absl::StrCat(Label(name), " must keep its name"));
  return absl::OkStatus();
}

absl::Status IndexEditor::MakeIndex() {
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
  StringSink sink(&text_);
  TableOptions table_options;
  table_options.block_bytes = kIndexBlockBytes;
  TableWriter table(&sink, table_options);
  CASK_RETURN_IF_ERROR(table.Add("", index_.header_value));
  for (const Item& item : items_) {
    CASK_ANNOTATE_IF_ERROR(table.Add(item.key, item.value), prefix_);
  }
  return table.Finish();
}

absl::Status IndexEditor::Publish() {
  const bool has_output = !options_.output.empty();
  PublishOptions publish_options;
  publish_options.file_system = options_.file_system;
  publish_options.sync = options_.sync;
  publish_options.overwrite = !has_output;
  Publication publish(publish_options);
  publish.KeepPermissionsOf(IndexPath(prefix_));
  publish.ReplaceOnly(index_file_);
  const int num_shards = index_.header.num_shards;
  std::vector<std::pair<std::string, std::string>> links;
  if (has_output) {
    CASK_RETURN_IF_ERROR(CheckNewPrefix(options_.output));
    if (!options_.dry_run) {
      CASK_RETURN_IF_ERROR(MakeFolderFor(IndexPath(options_.output), options_.sync, options_.file_system));
      CASK_RETURN_IF_ERROR(
          CheckTarget(options_.output, {prefix_}, "the checkpoint to edit", false, options_.file_system));
    }
    for (int shard = 0; shard < num_shards; ++shard) {
      const std::string from = DataPath(prefix_, shard, num_shards);
      CASK_ASSIGN_OR_RETURN(const bool exists, Exists(from));
      if (exists) links.emplace_back(from, DataPath(options_.output, shard, num_shards));
    }
  }
  const std::string index_path = IndexPath(has_output ? options_.output : prefix_);
  for (const auto& [from, to] : links) result_.files.push_back(to);
  result_.files.push_back(index_path);
  result_.written_bytes = text_.size();
  if (options_.dry_run) return absl::OkStatus();
  for (const auto& [from, to] : links) CASK_RETURN_IF_ERROR(publish.AddExisting(from, to));
  CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(index_path));
  CASK_RETURN_IF_ERROR(sink->Append(text_));
  return publish.Commit();
}

}  // namespace

absl::StatusOr<FileEditResult> EditCheckpoint(const std::string& path, const FileEdits& edits,
                                              const FileEditOptions& options) {
  return IndexEditor(edits, options).Run(path);
}

}  // namespace tensorcask::checkpoint
