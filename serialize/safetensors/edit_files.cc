#include "tensorcask/serialize/safetensors/edit_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/safetensors/internal/alias_keys.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/serialize/safetensors/internal/index_rewrite.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/serialize/safetensors/internal/open_model.h"
#include "tensorcask/serialize/safetensors/model_index.h"
#include "tensorcask/serialize/safetensors/safetensors_entry.h"
#include "tensorcask/serialize/safetensors/shard_files.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::safetensors {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr uint64_t kLargeBytes = uint64_t{1} << 20;  // the least size of data that is worth a header of whole blocks
constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kStepBytes = 64;

// One file of the model, as it is and as it will be.
struct EditedFile {
  Header header;               // parsed; without the names that change
  uint64_t data_start = 0;     // offset of the data
  bool has_checksums = false;  // true if the file has some of its own
  Metadata metadata;           // new; that of `header` is empty
  bool has_new_metadata = false;
  std::vector<size_t> kept;  // numbers of the entries in `header` that are not removed
  uint64_t kept_bytes = 0;   // the size of their elements
  bool is_dropped = false;   // the new model does not have this file
  bool is_unread = false;    // missing or damaged: it stays as it is
  std::string text;          // the new header, with its length; empty: the file does not change or is dropped
  std::string path;          // new
};

class Editor {
 public:
  Editor(const FileEdits& edits, const FileEditOptions& options) : edits_(edits), options_(options) {}

  absl::StatusOr<FileEditResult> Run(const std::string& path) {
    CASK_RETURN_IF_ERROR(Open(path));
    CASK_RETURN_IF_ERROR(CheckEdits());
    if (!options_.output.empty()) CASK_RETURN_IF_ERROR(CheckNoModel(options_.output, options_.file_system));
    for (EditedFile& file : files_) CASK_RETURN_IF_ERROR(EditMetadata(&file));
    CASK_RETURN_IF_ERROR(CheckAliases());
    for (size_t i = 0; i < files_.size(); ++i) CASK_RETURN_IF_ERROR(MakeHeader(i));
    if (is_model_) CASK_RETURN_IF_ERROR(MakeIndex());
    if (options_.dry_run) {
      result_.removed_files = FilesToRemove();
    } else {
      CASK_RETURN_IF_ERROR(Write());
    }
    return std::move(result_);
  }

 private:
  absl::Status Open(const std::string& path);
  absl::Status CheckTouched() const;
  absl::Status CheckEdits() const;
  absl::Status CheckRemovals() const;
  absl::Status EditMetadata(EditedFile* file);
  static void SetMetadata(const std::string& key, const std::string& value, EditedFile* file);
  std::set<std::string> NewAliases() const;  // their keys after the edit
  absl::Status CheckAliases();
  absl::Status MakeHeader(size_t number);
  absl::Status PlanHeader(EditedFile* file) const;
  absl::Status CheckHeader(const EditedFile& file) const;
  absl::Status MakeIndex();
  absl::Status Write();
  std::vector<std::string> FilesToRemove();
  absl::Status WriteFiles();
  static absl::Status CopyElements(const EditedFile& file, const ByteSource& from, ByteSink* to);
  absl::Status CheckIndexStays() const;

  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(model_->path, ": ", what));
  }
  const std::string& NewName(const std::string& name) const {
    const auto renamed = edits_.renames.find(name);
    return renamed == edits_.renames.end() ? name : renamed->second;
  }
  bool HasUnreadFile() const {
    return std::any_of(files_.begin(), files_.end(), [](const EditedFile& file) { return file.is_unread; });
  }
  bool IsRemoved(const std::string& name) const { return edits_.removed.count(name) != 0; }

  const FileEdits& edits_;
  const FileEditOptions& options_;
  OpenOptions open_;
  std::unique_ptr<Model> model_;
  bool is_model_ = false;          // several files with an index
  Metadata aliases_;               // that the reader restores, by old names
  std::vector<EditedFile> files_;  // for model_->shards
  std::string index_text_;         // that of the new index
  std::string old_index_text_;
  FileEditResult result_;
};

absl::Status Editor::Open(const std::string& path) {
  open_.read.file_system = options_.file_system;
  open_.parse.limits = options_.limits;
  open_.parse.lenient = options_.lenient;
  open_.max_header_bytes = kMaxHeaderBytes;
  CASK_ASSIGN_OR_RETURN(model_, OpenModel(path, open_));
  is_model_ = model_->is_index;
  result_.notes = model_->notes;
  for (const SafetensorsEntry& entry : model_->entries) {
    if (!entry.alias_of.empty()) aliases_[entry.name] = entry.alias_of;
  }
  for (const Shard& shard : model_->shards) {
    EditedFile file;
    file.path = shard.path;
    if (!shard.status.ok()) {
      file.is_unread = true;
      files_.push_back(std::move(file));
      continue;
    }
    CASK_ASSIGN_OR_ANNOTATE(file.header, ReadHeader(*shard.file, open_), shard.path);
    std::array<char, kPrefixBytes> prefix;
    CASK_RETURN_IF_ERROR(shard.file->ReadAt(0, absl::MakeSpan(prefix)));
    file.data_start = kPrefixBytes + LoadLittleEndian<uint64_t>(prefix.data());
    file.has_checksums = !file.header.entries.empty() && file.header.entries[0].checksum.has_value();
    for (size_t i = 0; i < file.header.entries.size(); ++i) {
      const SafetensorsEntry& entry = file.header.entries[i];
      if (IsRemoved(entry.name)) continue;
      file.kept.push_back(i);
      file.kept_bytes += entry.stored_bytes;
    }
    files_.push_back(std::move(file));
  }
  if (is_model_) return absl::OkStatus();
  // The header of the only file says the same.
  model_->by_name.clear();
  std::vector<SafetensorsEntry>().swap(model_->entries);
  model_->metadata.clear();
  return absl::OkStatus();
}

// A tensor of a file that is missing or damaged must stay. So must the name of one that is not in its file; the index
// can do without it.
absl::Status Editor::CheckTouched() const {
  for (const SafetensorsEntry& entry : model_->entries) {
    if (!absl::IsDataLoss(entry.read_status) || !entry.alias_of.empty()) continue;
    const bool is_removed = IsRemoved(entry.name) && files_[static_cast<size_t>(entry.shard)].is_unread;
    if (!is_removed && NewName(entry.name) == entry.name) continue;
    return MarkDamagedPart(
        Annotate(entry.read_status, absl::StrCat(model_->path, ": tensor ", Quoted(entry.name), " must stay")));
  }
  return absl::OkStatus();
}

absl::Status Editor::CheckEdits() const {
  CASK_RETURN_IF_ERROR(CheckTouched());
  CASK_RETURN_IF_ERROR(CheckRemovals());
  if (is_model_ && (!edits_.set_metadata.empty() || !edits_.unset_metadata.empty())) {
    return Refuse("is a model in several files, each with its own metadata: edit one of the files");
  }
  if (is_model_ && !options_.output.empty()) {
    return Refuse("is a model in several files; only one file can be written under another name");
  }
  for (const auto& [from, to] : edits_.renames) {
    const absl::Status valid = CheckName(to);
    if (!valid.ok()) return Refuse(valid.message());
    if (aliases_.count(from) != 0 && to == kFormatKey) {
      return Refuse(absl::StrCat(Quoted(from), " is another name of ", Quoted(aliases_.at(from)),
                                 " and cannot be called \"format\", which metadata uses"));
    }
  }
  for (const auto& [key, value] : edits_.set_metadata) {
    if (key == kChecksumKey || key == kAliasesKey)
      return Refuse(absl::StrCat("metadata ", Quoted(key), " is made by the writer"));
    if (!internal::IsUtf8(key) || !internal::IsUtf8(value)) {
      return Refuse(absl::StrCat("metadata ", Quoted(key), " is not UTF-8"));
    }
    for (const auto& [alias, target] : aliases_) {
      if (key != alias && key != NewName(alias)) continue;
      return Refuse(
          absl::StrCat("metadata ", Quoted(key), " notes another name of tensor ", Quoted(target), "; unset it first"));
    }
  }
  return absl::OkStatus();
}

absl::Status Editor::CheckRemovals() const {
  for (const auto& [alias, target] : aliases_) {
    if (IsRemoved(target) && !IsRemoved(alias)) {
      return Refuse(absl::StrCat("tensor ", Quoted(target), " cannot be removed alone: ", Quoted(alias),
                                 " is another name of it; remove both"));
    }
  }
  const bool is_left = HasUnreadFile() || std::any_of(files_.begin(), files_.end(),
                                                      [](const EditedFile& file) { return !file.kept.empty(); });
  return is_left || !is_model_ || edits_.removed.empty() ? absl::OkStatus() : Refuse("no tensor would be left");
}

// Sets the new metadata of one file: its aliases follow the names, then entries are unset and set.
absl::Status Editor::EditMetadata(EditedFile* file) {
  Metadata& metadata = file->metadata;
  metadata = std::move(file->header.metadata);
  std::vector<Metadata::node_type> aliases;
  for (auto entry = metadata.begin(); entry != metadata.end();) {
    const auto here = entry++;
    const auto alias = aliases_.find(here->first);
    if (alias != aliases_.end() && alias->second == here->second) aliases.push_back(metadata.extract(here));
  }
  for (const Metadata::node_type& alias : aliases) {
    const std::string& key = alias.key();
    const std::string& new_key = NewName(key);
    if (new_key != key && metadata.count(new_key) != 0 && aliases_.count(new_key) == 0) {
      return absl::AlreadyExistsError(absl::StrCat(file->path, ": ", Quoted(key), " cannot be called ", Quoted(new_key),
                                                   ": the metadata has an entry of that name"));
    }
    const std::string& new_value = NewName(alias.mapped());
    file->has_new_metadata |= IsRemoved(key) || new_key != key || new_value != alias.mapped();
    if (!IsRemoved(key)) metadata[new_key] = new_value;
  }
  const std::string list(kAliasesKey);
  if (metadata.count(list) != 0) SetMetadata(list, AliasList(NewAliases()), file);
  if (is_model_) return absl::OkStatus();
  for (const std::string& key : edits_.unset_metadata) {
    const bool is_alias = aliases_.count(key) != 0;
    const bool was_there = metadata.erase(is_alias ? NewName(key) : key) != 0 || (is_alias && IsRemoved(key));
    if (!was_there) return absl::NotFoundError(absl::StrCat(file->path, ": has no metadata ", Quoted(key)));
    file->has_new_metadata = true;
  }
  for (const auto& [key, value] : edits_.set_metadata) SetMetadata(key, value, file);
  if (!metadata.empty() && metadata.count(std::string(kFormatKey)) == 0 &&
      (!edits_.set_metadata.empty() || !edits_.unset_metadata.empty())) {
    result_.notes.push_back(
        "the metadata has no entry \"format\"; Hugging Face transformers refuses such a file (set format to pt)");
  }
  return absl::OkStatus();
}

void Editor::SetMetadata(const std::string& key, const std::string& value, EditedFile* file) {
  const auto [entry, is_new] = file->metadata.emplace(key, value);
  file->has_new_metadata |= is_new || entry->second != value;
  entry->second = value;
}

std::set<std::string> Editor::NewAliases() const {
  std::set<std::string> keys;
  for (const auto& [alias, target] : aliases_) {
    if (edits_.unset_metadata.count(alias) == 0 && !IsRemoved(alias)) keys.insert(NewName(alias));
  }
  return keys;
}

// Entries of the metadata become other names of tensors by what they say. The edit must neither make nor lose one.
absl::Status Editor::CheckAliases() {
  absl::flat_hash_set<absl::string_view> names;  // new ones, of tensors
  for (const SafetensorsEntry& entry : is_model_ ? model_->entries : files_[0].header.entries) {
    if (entry.alias_of.empty() && !IsRemoved(entry.name)) names.insert(NewName(entry.name));
  }
  const std::set<std::string> expected = NewAliases();
  std::set<std::string> found;
  for (EditedFile& file : files_) {
    Metadata all;  // for a model: another file may have the format
    if (is_model_) {
      all = file.metadata;
      const auto format = model_->metadata.find(std::string(kFormatKey));
      if (format != model_->metadata.end()) all.insert(*format);
    }
    const auto is_tensor = [&](const std::string& name) { return names.contains(name); };
    std::set<std::string> aliases = AliasKeys(is_model_ ? all : file.metadata, is_tensor);
    if (!is_model_ && aliases.empty() && !expected.empty()) {  // without the format that told what they are
      SetMetadata(std::string(kAliasesKey), AliasList(expected), &file);
      aliases = expected;
    }
    for (const auto& [key, value] : file.metadata) {
      if (aliases.count(key) == 0) continue;
      if (expected.count(key) != 0) {
        found.insert(key);
        continue;
      }
      if (edits_.set_metadata.count(key) != 0) {
        result_.notes.push_back(absl::StrCat("metadata ", Quoted(key), " is the name of a tensor: readers will take ",
                                             Quoted(key), " for another name of ", Quoted(value)));
        continue;
      }
      return Refuse(absl::StrCat("metadata ", Quoted(key), " is ", Quoted(value),
                                 ", the name of a tensor: after the edit, readers would take ", Quoted(key),
                                 " for another name of it"));
    }
  }
  // The index notes the others. They stay right if neither name changes.
  for (const auto& [alias, target] : aliases_) {
    const bool is_expected = expected.count(NewName(alias)) != 0 && found.count(NewName(alias)) == 0;
    if (!is_expected || (NewName(alias) == alias && NewName(target) == target)) continue;
    return Refuse(absl::StrCat("the index says that ", Quoted(alias), " is another name of ", Quoted(target),
                               "; both must keep their names"));
  }
  return absl::OkStatus();
}

absl::Status Editor::MakeHeader(size_t number) {
  EditedFile& file = files_[number];
  const std::string& old_path = model_->shards[number].path;
  bool changed = file.has_new_metadata || file.kept.size() != file.header.entries.size();
  for (const size_t kept : file.kept) {
    const std::string& name = file.header.entries[kept].name;
    changed = changed || NewName(name) != name;
  }
  if (!changed) return absl::OkStatus();
  if (is_model_ && file.kept.empty() && !file.header.entries.empty()) {
    file.is_dropped = true;
    return absl::OkStatus();
  }
  for (const size_t kept : file.kept) {
    const SafetensorsEntry& entry = file.header.entries[kept];
    if (entry.read_status.ok()) continue;  // else the new header would need the name of its dtype
    return Annotate(entry.read_status, absl::StrCat(old_path, ": tensor ", Quoted(entry.name)));
  }
  CASK_RETURN_IF_ERROR(PlanHeader(&file));
  CASK_RETURN_IF_ERROR(CheckHeader(file));
  if (is_model_) {
    CASK_ASSIGN_OR_RETURN(file.path, NextRevision(old_path, options_.file_system));
  } else if (!options_.output.empty()) {
    file.path = options_.output;
  }
  if (!file.header.notes.empty()) {
    result_.notes.push_back(absl::StrCat(LastName(file.path),
                                         ": the new header leaves out unknown fields and checksums of another header"));
  }
  result_.files.push_back(file.path);
  if (is_model_) result_.replaced.push_back(old_path);
  result_.written_bytes += file.text.size();
  result_.copied_bytes += file.kept_bytes;
  return absl::OkStatus();
}

// Sets file->text. The data begin where they did if the new header fits there.
absl::Status Editor::PlanHeader(EditedFile* file) const {
  PlanOptions plan;
  plan.alignment = 1;
  plan.by_alignment = false;
  plan.checksums = file->has_checksums;
  plan.metadata = &file->metadata;
  std::vector<PlannedTensor> tensors;
  std::vector<uint32_t> checksums;
  for (const size_t kept : file->kept) {
    const SafetensorsEntry& entry = file->header.entries[kept];
    PlannedTensor tensor;
    tensor.name = NewName(entry.name);
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensor.stored_bytes = entry.stored_bytes;
    tensors.push_back(std::move(tensor));
    if (file->has_checksums) checksums.push_back(entry.checksum.value_or(0));
  }
  CASK_ASSIGN_OR_ANNOTATE(std::vector<FilePlan> plans, PlanFiles(plan, &tensors), file->path);
  FilePlan& header = plans[0];
  const uint64_t needed = header.header.size();
  uint64_t size = file->data_start;
  if (needed > size) {
    const uint64_t step = file->kept_bytes >= kLargeBytes ? kBlockBytes : kStepBytes;
    size += (needed - size + step - 1) / step * step;
    if (size - kPrefixBytes > kMaxHeaderBytes) size = needed;
  }
  ResizeHeader(size, file->has_checksums, &header);
  if (file->has_checksums) SetChecksums(checksums, &header);
  file->text = std::move(header.header);
  return absl::OkStatus();
}

// Reads the new header back: each tensor that stays has the bytes, the dtype, the shape and the checksum that it had.
absl::Status Editor::CheckHeader(const EditedFile& file) const {
  CASK_ASSIGN_OR_ANNOTATE(const Header parsed,
                          ParseHeader(absl::string_view(file.text).substr(kPrefixBytes), file.kept_bytes, open_.parse),
                          absl::StrCat(file.path, ": the new header"));
  bool same = parsed.entries.size() == file.kept.size() && parsed.metadata == file.metadata;
  uint64_t offset = file.text.size();
  for (size_t i = 0; same && i < parsed.entries.size(); ++i) {
    const SafetensorsEntry& now = parsed.entries[i];
    const SafetensorsEntry& old = file.header.entries[file.kept[i]];
    same = now.name == NewName(old.name) && now.dtype == old.dtype && now.shape == old.shape && now.offset == offset &&
           now.stored_bytes == old.stored_bytes && now.checksum == old.checksum;
    offset += now.stored_bytes;
  }
  return same ? absl::OkStatus() : absl::InternalError(absl::StrCat(file.path, ": the new header lost a tensor"));
}

absl::Status Editor::MakeIndex() {
  ReadOptions read;
  read.file_system = options_.file_system;
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> buffer, ReadWholeFile(model_->path, kMaxHeaderBytes, read));
  const absl::string_view text(static_cast<const char*>(buffer->data()), buffer->size_bytes());
  CASK_ASSIGN_OR_ANNOTATE(const ModelIndex index, ParseModelIndex(text, open_.parse), model_->path);
  old_index_text_ = std::string(text);
  std::map<std::string, std::string> files;
  uint64_t total_size = 0;
  uint64_t removed_size = 0;
  uint64_t removed_elements = 0;
  for (const SafetensorsEntry& entry : model_->entries) {
    if (!entry.alias_of.empty()) {
      const auto noted = index.metadata.find(entry.name);
      if (!IsRemoved(entry.name) || IsRemoved(entry.alias_of) || noted == index.metadata.end()) continue;
      return Refuse(absl::StrCat("the index says that ", Quoted(entry.name), " is another name of ",
                                 Quoted(noted->second), "; it cannot be removed alone"));
    }
    const auto shard = static_cast<size_t>(entry.shard);
    const auto listed = index.files.find(entry.name);
    const bool is_listed = listed != index.files.end() && listed->second == LastName(model_->shards[shard].path);
    if (!is_listed && model_->shards[shard].unlisted.ok()) {
      return absl::AbortedError(absl::StrCat(model_->path, ": changed while it was read"));
    }
    if (IsRemoved(entry.name)) {
      removed_size += entry.stored_bytes;
      removed_elements += static_cast<uint64_t>(entry.shape.num_elements());
      continue;
    }
    files[NewName(entry.name)] = std::string(LastName(files_[shard].path));
    total_size += entry.stored_bytes;
  }
  CASK_ASSIGN_OR_ANNOTATE(index_text_, ReplaceWeightMap(text, files), model_->path);
  if (index.total_size.has_value() && !edits_.removed.empty()) {
    // The index counts the bytes of a file that cannot be read.
    if (HasUnreadFile()) total_size = *index.total_size - std::min(*index.total_size, removed_size);
    CASK_ASSIGN_OR_ANNOTATE(index_text_, ReplaceTotalSize(index_text_, total_size), model_->path);
  }
  if (removed_elements > 0) index_text_ = ReduceTotalParameters(index_text_, removed_elements);
  const absl::StatusOr<ModelIndex> rewritten = ParseModelIndex(index_text_, open_.parse);
  if (!rewritten.ok() || rewritten->files != files) {
    return absl::InternalError(absl::StrCat(model_->path, ": the new index lost a tensor"));
  }
  result_.files.push_back(model_->path);
  result_.replaced.push_back(model_->path);
  result_.written_bytes += index_text_.size();
  return absl::OkStatus();
}

// Two edits of one model exclude each other where its index can be locked. CheckIndexStays sees the others.
absl::Status Editor::Write() {
  if (!is_model_) return WriteFiles();
  const absl::StatusOr<FileLock> lock = FileLock::Acquire(model_->path, options_.file_system);
  if (lock.ok() && !lock->is_held()) {
    return absl::AbortedError(absl::StrCat(model_->path, ": another process edits it"));
  }
  return WriteFiles();
}

absl::Status Editor::CheckIndexStays() const {
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> now, ReadWholeFile(model_->path, kMaxHeaderBytes, open_.read));
  if (absl::string_view(static_cast<const char*>(now->data()), now->size_bytes()) == old_index_text_) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(model_->path, ": changed while its files were written"));
}

// Copies the elements of the tensors that stay: neighbours together.
absl::Status Editor::CopyElements(const EditedFile& file, const ByteSource& from, ByteSink* to) {
  const std::vector<SafetensorsEntry>& entries = file.header.entries;
  for (size_t i = 0; i < file.kept.size();) {
    const uint64_t offset = entries[file.kept[i]].offset;
    uint64_t bytes = 0;
    while (i < file.kept.size() && entries[file.kept[i]].offset == offset + bytes) {
      bytes += entries[file.kept[i++]].stored_bytes;
    }
    CASK_RETURN_IF_ERROR(to->AppendFrom(from, offset, bytes));
  }
  return absl::OkStatus();
}

// The old files of a model that only the old index needs. Notes say which other ones stay.
std::vector<std::string> Editor::FilesToRemove() {
  std::vector<std::string> paths;
  std::optional<OtherIndexes> others;
  for (size_t i = 0; is_model_ && i < files_.size(); ++i) {
    if (!files_[i].is_dropped && files_[i].text.empty()) continue;
    if (!others.has_value()) others.emplace(model_->path, open_);
    const std::string& path = model_->shards[i].path;
    const std::string reason = others->WhyNeeded(LastName(path));
    if (reason.empty()) {
      paths.push_back(path);
    } else {
      result_.notes.push_back(absl::StrCat(path, " stays: ", reason));
    }
  }
  return paths;
}

absl::Status Editor::WriteFiles() {
  PublishOptions publish_options;
  publish_options.file_system = options_.file_system;
  publish_options.sync = options_.sync;
  publish_options.overwrite = options_.output.empty();
  publish_options.only_switch = is_model_;
  Publication publish(publish_options);
  publish.KeepPermissionsOf(model_->path);
  if (!is_model_) publish.ReplaceOnly(model_->shards[0].file);
  for (const Shard& shard : model_->shards) {
    if (shard.status.ok()) publish.KeepPermissionsOf(shard.path);
  }
  uint64_t copied = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    const EditedFile& file = files_[i];
    if (file.text.empty()) continue;
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(file.path));
    PacedSink paced(sink, &options_.progress, copied);
    CASK_RETURN_IF_ERROR(paced.Append(file.text));
    CASK_RETURN_IF_ERROR(CopyElements(file, *model_->shards[i].file, &paced));
    copied = paced.copied();
  }
  if (is_model_) {
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(model_->path));
    CASK_RETURN_IF_ERROR(sink->Append(index_text_));
    CASK_RETURN_IF_ERROR(CheckIndexStays());
  }
  for (const std::string& path : FilesToRemove()) publish.RemoveAfterwards(path);
  CASK_RETURN_IF_ERROR(publish.Commit());
  result_.removed_files = publish.removed();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileEditResult> EditSafetensors(const std::string& path, const FileEdits& edits,
                                               const FileEditOptions& options) {
  return Editor(edits, options).Run(path);
}

}  // namespace tensorcask::safetensors
