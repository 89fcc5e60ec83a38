#include "tensorcask/serialize/safetensors/internal/open_model.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/safetensors/internal/alias_keys.h"
#include "tensorcask/serialize/safetensors/model_index.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::safetensors {
namespace {

constexpr absl::string_view kFormat = "safetensors";  // for ExplainContent

absl::string_view TextOf(const TensorBuffer& buffer, size_t size_bytes) {
  return {static_cast<const char*>(buffer.data()), size_bytes};
}

// Makes the table of names, and entries of the aliases that the metadata notes.
absl::Status FinishModel(const OpenOptions& options, Model* model) {
  std::vector<SafetensorsEntry>& entries = model->entries;
  if (options.restore_aliases) entries.reserve(entries.size() + model->metadata.size());
  CASK_CHECK(entries.capacity() < std::numeric_limits<uint32_t>::max(), "fewer than 2^32 tensors");
  model->by_name.reserve(entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) {
    if (model->by_name.insert(i).second) continue;
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(entries[i].name), " is listed twice: duplicate name"));
  }
  const size_t num_tensors = entries.size();
  if (options.restore_aliases) {
    const auto is_tensor = [&](const std::string& name) { return model->Find(name).has_value(); };
    for (const std::string& name : AliasKeys(model->metadata, is_tensor)) {
      if (name.size() > LimitOf(options.parse.limits.max_name_bytes)) continue;
      const auto it = model->metadata.find(name);
      SafetensorsEntry alias = entries[*model->Find(it->second)];
      alias.name = name;
      alias.alias_of = it->second;
      entries.push_back(std::move(alias));
      model->metadata.erase(it);
    }
  }
  model->metadata.erase(std::string(kAliasesKey));
  for (size_t i = num_tensors; i < entries.size(); ++i) model->by_name.insert(static_cast<uint32_t>(i));
  return absl::OkStatus();
}

// Opens the files that `index` names, one by one, and moves what they hold to *model.
class ShardOpener {
 public:
  ShardOpener(ModelIndex index, uint64_t index_bytes, const OpenOptions& options, Model* model)
      : index_(std::move(index)),
        options_(options),
        model_(model),
        memory_(DecodeQuota::ForUnbacked(options.parse.limits, index_bytes)) {
    model->header_bytes = index_bytes;
  }

  absl::Status Run() {
    model_->metadata = std::move(index_.metadata);
    model_->notes = std::move(index_.notes);
    model_->entries.reserve(index_.files.size());  // each tensor that it lists becomes one, if only by its name
    for (const auto& [tensor, file] : index_.files) tensors_[file].push_back(tensor);
    for (const auto& [name, tensors] : tensors_) CASK_RETURN_IF_ERROR(Open(name));
    if (!unlisted_.empty()) SettleUnlisted();
    const bool has_all_files =
        std::all_of(model_->shards.begin(), model_->shards.end(), [](const Shard& shard) { return shard.status.ok(); });
    if (!missing_.empty()) NoteMissing();
    if (has_all_files && index_.total_size.has_value() && *index_.total_size != total_bytes_) {
      AddNote(
          absl::StrCat("the index says that all tensors have ", *index_.total_size, " bytes; they have ", total_bytes_),
          &model_->notes);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Open(absl::string_view name) {
    Shard shard;
    shard.path = absl::StrCat(FolderOf(model_->path), "/", name);
    CASK_RETURN_IF_ERROR(CheckHasNeighbours(shard.path, options_.read));
    absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(shard.path, options_.read);
    if (absl::IsNotFound(file.status())) {
      missing_.emplace_back(name);
      shard.status = absl::DataLossError(absl::StrCat(shard.path, ": is missing; ", model_->path, " lists it"));
      return AddUnreadable(std::move(shard), name);
    }
    if (absl::IsFailedPrecondition(file.status())) {  // a folder, for example
      shard.status = absl::DataLossError(file.status().message());
      return AddDamaged(std::move(shard), name);
    }
    CASK_RETURN_IF_ERROR(file.status());
    absl::StatusOr<Header> header = ReadHeader(**file, options_);
    if (absl::IsDataLoss(header.status()) && !IsResourceFailure(header.status())) {
      shard.status = ExplainContent(Annotate(header.status(), shard.path), **file, kFormat);
      return AddDamaged(std::move(shard), name);
    }
    if (!header.ok()) return ExplainContent(Annotate(header.status(), shard.path), **file, kFormat);
    shard.file = *std::move(file);
    model_->header_bytes += header->size_bytes;
    for (std::string& note : header->notes) AddNote(absl::StrCat(name, ": ", note), &model_->notes);
    for (const auto& [key, value] : header->metadata) {
      const auto [first, is_new] = model_->metadata.emplace(key, value);
      if (is_new || first->second == value) continue;
      AddNote(absl::StrCat(name, ": the metadata ", Quoted(key), " is ", Quoted(value), "; that of the index or of a ",
                           "file before, ", Quoted(first->second), ", counts"),
              &model_->notes);
    }
    const size_t first_entry = model_->entries.size();
    for (SafetensorsEntry& entry : header->entries) CASK_RETURN_IF_ERROR(Add(name, &entry));
    CASK_RETURN_IF_ERROR(AddAbsent(name, shard.path, first_entry));
    model_->shards.push_back(std::move(shard));
    return absl::OkStatus();
  }

  absl::Status AddDamaged(Shard shard, absl::string_view name) {
    AddNote(absl::StrCat("a file is damaged: ", shard.status.message()), &model_->notes);
    return AddUnreadable(std::move(shard), name);
  }

  // Lists the tensors of a file that cannot be read.
  absl::Status AddUnreadable(Shard shard, absl::string_view name) {
    for (const absl::string_view tensor : tensors_.at(name)) CASK_RETURN_IF_ERROR(AddListed(tensor, shard.status));
    model_->shards.push_back(std::move(shard));
    return absl::OkStatus();
  }

  // Lists the tensors that the index expects in this file and that it does not have. Its own begin at entry `first`.
  absl::Status AddAbsent(absl::string_view name, const std::string& path, size_t first) {
    const std::vector<absl::string_view>& listed = tensors_.at(name);
    const auto num_unlisted = unlisted_.end() - std::lower_bound(unlisted_.begin(), unlisted_.end(), first);
    if (model_->entries.size() - first - static_cast<size_t>(num_unlisted) == listed.size()) return absl::OkStatus();
    std::set<absl::string_view> found;
    for (size_t i = first; i < model_->entries.size(); ++i) found.insert(model_->entries[i].name);
    const absl::Status status =
        absl::DataLossError(absl::StrCat(model_->path, " says that it is in ", path, ", which does not have it"));
    std::vector<absl::string_view> absent;  // `found` has names of entries, which move when one is added
    for (const absl::string_view tensor : listed) {
      if (found.count(tensor) == 0) absent.push_back(tensor);
    }
    for (const absl::string_view tensor : absent) CASK_RETURN_IF_ERROR(AddListed(tensor, status));
    return absl::OkStatus();
  }

  // Adds a tensor of which only the name is known.
  absl::Status AddListed(absl::string_view tensor, const absl::Status& status) {
    constexpr uint64_t kEntryBytes = 192;  // and its place in the table of names
    CASK_RETURN_IF_ERROR(memory_.Charge(kEntryBytes + tensor.size()));
    SafetensorsEntry entry;
    entry.name = std::string(tensor);
    entry.shard = static_cast<int>(model_->shards.size());
    entry.read_status = status;
    model_->entries.push_back(std::move(entry));
    return absl::OkStatus();
  }

  void NoteMissing() {
    constexpr size_t kMaxNamed = 100;
    const size_t count = missing_.size();
    missing_.resize(std::min(count, kMaxNamed));
    AddNote(absl::StrCat(count, " of the ", tensors_.size(), " files that it lists ", count == 1 ? "is" : "are",
                         " missing: ", absl::StrJoin(missing_, ", "), count > kMaxNamed ? ", ..." : ""),
            &model_->notes);
  }

  absl::Status Add(absl::string_view name, SafetensorsEntry* entry) {
    if (static_cast<int64_t>(model_->entries.size()) >= options_.parse.limits.max_entries) {
      return PastLimit(absl::StrCat(model_->path, ": has more tensors"), "max_entries",
                       options_.parse.limits.max_entries);
    }
    const auto listed = index_.files.find(entry->name);
    if (listed != index_.files.end() && listed->second == name) {
      total_bytes_ += entry->stored_bytes;
    } else {
      unlisted_.push_back(model_->entries.size());
    }
    entry->shard = static_cast<int>(model_->shards.size());
    model_->entries.push_back(std::move(*entry));
    return absl::OkStatus();
  }

  // Decides which tensors that the index does not list where they are belong to the model: those whose name no tensor
  // in its listed place has, and no unlisted one before.
  void SettleUnlisted() {
    std::vector<SafetensorsEntry>& entries = model_->entries;
    absl::flat_hash_map<absl::string_view, size_t> chosen;  // the entry of each of their names
    for (const size_t number : unlisted_) chosen.emplace(entries[number].name, number);
    std::vector<bool> is_left_out(entries.size());
    auto next = unlisted_.begin();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (next != unlisted_.end() && *next == i) {
        ++next;
        continue;
      }
      const auto same = chosen.find(entries[i].name);
      if (same == chosen.end()) continue;
      const bool is_absent = !entries[i].read_status.ok() && IsReadable(entries[i].shard) &&
                             absl::IsDataLoss(entries[i].read_status);  // from where the index says that it is
      if (is_absent) {
        is_left_out[i] = true;
      } else {
        same->second = i;
      }
    }
    for (const size_t number : unlisted_) is_left_out[number] = chosen.at(entries[number].name) != number;
    NoteUnlisted(is_left_out);
    chosen.clear();
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (is_left_out[i]) continue;
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
    entries.resize(kept);
  }

  bool IsReadable(int shard) const { return model_->shards[static_cast<size_t>(shard)].status.ok(); }

  // One sentence for each file that has such tensors.
  void NoteUnlisted(const std::vector<bool>& is_left_out) {
    for (auto first = unlisted_.begin(); first != unlisted_.end();) {
      const int number = model_->entries[*first].shard;
      const auto last =
          std::find_if(first, unlisted_.end(), [&](size_t i) { return model_->entries[i].shard != number; });
      const auto left_out = std::count_if(first, last, [&](size_t i) { return is_left_out[i]; });
      const auto count = last - first;
      Shard& shard = model_->shards[static_cast<size_t>(number)];
      shard.unlisted = absl::DataLossError(absl::StrCat(
          shard.path, ": has ", count, count == 1 ? " tensor" : " tensors", " that ", model_->path,
          " does not list there: ", count == 1 ? "" : "the first is ", Quoted(model_->entries[*first].name)));
      if (left_out > 0) {
        const size_t example = *std::find_if(first, last, [&](size_t i) { return is_left_out[i]; });
        shard.unlisted = AppendToMessage(
            shard.unlisted, count == 1 ? "; the tensor of this name is that of another file"
                                       : absl::StrCat("; of ", left_out, " of them, the first is ",
                                                      Quoted(model_->entries[example].name),
                                                      ", the tensors of these names are those of other files"));
      }
      AddNote(std::string(shard.unlisted.message()), &model_->notes);
      first = last;
    }
  }

  ModelIndex index_;
  const OpenOptions& options_;
  Model* const model_;
  DecodeQuota memory_;                                                   // that tensors take which are only listed
  std::map<absl::string_view, std::vector<absl::string_view>> tensors_;  // by file: names in index_
  std::vector<std::string> missing_;                                     // names of files
  std::vector<size_t> unlisted_;  // numbers of entries that the index does not list where they are, ascending
  uint64_t total_bytes_ = 0;
};

constexpr int kMaxTries = 10;  // to open a model that is replaced meanwhile

// An index is JSON text. One file of a model begins with a number below 2^40, and so has NUL bytes there.
absl::StatusOr<bool> HasTextOfIndex(const ByteSource& file) {
  std::array<char, kPrefixBytes> start;
  const auto size = static_cast<size_t>(std::min<uint64_t>(start.size(), file.size_bytes()));
  CASK_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(start).first(size)));
  const absl::string_view text(start.data(), size);
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{") && !absl::StrContains(text, '\0');
}

absl::StatusOr<std::unique_ptr<Model>> OpenIndexedFiles(const ByteSource& file, const OpenOptions& options) {
  const std::string& path = file.name();
  const uint64_t size = file.size_bytes();
  if (size > options.max_header_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", size, " bytes; the limit max_header_bytes is ", options.max_header_bytes));
  }
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> text, TensorBuffer::Allocate(static_cast<size_t>(size)));
  CASK_RETURN_IF_ERROR(
      file.ReadAt(0, absl::MakeSpan(static_cast<char*>(text->mutable_data()), static_cast<size_t>(size))));
  absl::StatusOr<ModelIndex> index = ParseModelIndex(TextOf(*text, static_cast<size_t>(size)), options.parse);
  text = {};  // the index has what it needs
  if (!index.ok()) return ExplainContent(Annotate(index.status(), path), file, kFormat);
  auto model = std::make_unique<Model>();
  model->path = path;
  model->is_index = true;
  ListingBudget memory(options.parse.limits, /*bytes_per_index_byte=*/1);
  OpenOptions together = options;
  together.parse.memory = &memory;
  CASK_RETURN_IF_ERROR(ShardOpener(*std::move(index), size, together, model.get()).Run());
  CASK_ANNOTATE_IF_ERROR(FinishModel(options, model.get()), path);
  return model;
}

// If the index is still the same file when all files are open, they belong to it, since a new model has a new index.
absl::StatusOr<std::unique_ptr<Model>> OpenIndex(const std::string& path, const OpenOptions& options) {
  for (int i = 0; i < kMaxTries; ++i) {
    CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
    absl::StatusOr<std::unique_ptr<Model>> model = OpenIndexedFiles(*file, options);
    if (!WasReplaced(*file)) return model;
  }
  return absl::AbortedError(absl::StrCat(path, ": the model was replaced while it was read; open it again"));
}

}  // namespace

absl::StatusOr<Header> ReadHeader(const ByteSource& file, const OpenOptions& options) {
  if (file.size_bytes() < kPrefixBytes) {
    return absl::DataLossError(absl::StrCat("has ", file.size_bytes(), file.size_bytes() == 1 ? " byte" : " bytes",
                                            "; a safetensors file begins with the 8 "
                                            "bytes of the header's length"));
  }
  std::array<char, kPrefixBytes> prefix;
  CASK_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(prefix)));
  const auto header_bytes = LoadLittleEndian<uint64_t>(prefix.data());
  const uint64_t rest = file.size_bytes() - kPrefixBytes;
  if (header_bytes > rest) {
    return absl::DataLossError(absl::StrCat("the header's length is ", header_bytes, "; the file has ", rest,
                                            rest == 1 ? " byte" : " bytes", " behind it (an incomplete download?)"));
  }
  if (header_bytes > options.max_header_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the header's length is ", header_bytes,
                                                     "; the limit max_header_bytes is ", options.max_header_bytes));
  }
  const auto size = static_cast<size_t>(header_bytes);
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> text, TensorBuffer::Allocate(size));
  CASK_RETURN_IF_ERROR(file.ReadAt(kPrefixBytes, absl::MakeSpan(static_cast<char*>(text->mutable_data()), size)));
  return ParseHeader(TextOf(*text, size), rest - header_bytes, options.parse);
}

absl::StatusOr<std::unique_ptr<Model>> OpenModel(const std::string& path, const OpenOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  if (absl::EndsWith(path, kIndexEnding)) return OpenIndex(path, options);
  const std::string index = absl::StrCat(path, kIndexEnding);
  const auto exists = [&](const std::string& at) { return IsThere(at, options.read.file_system); };
  absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, options.read);
  // A model in one file may replace one in several, and the other way round, between two of these calls.
  for (int i = 0; i < kMaxTries && absl::IsNotFound(file.status()); ++i) {
    if (exists(index)) {
      absl::StatusOr<std::unique_ptr<Model>> model = OpenIndex(index, options);
      if (!absl::IsNotFound(model.status()) || exists(index)) return model;
    }
    if (!exists(path)) break;
    file = OpenFileSource(path, options.read);
  }
  CASK_RETURN_IF_ERROR(file.status());
  CASK_ASSIGN_OR_RETURN(const bool is_index, HasTextOfIndex(**file));
  return is_index ? OpenIndex(path, options) : OpenOneFile(*std::move(file), options);
}

absl::StatusOr<std::unique_ptr<Model>> OpenOneFile(std::shared_ptr<const ByteSource> file, const OpenOptions& options) {
  auto model = std::make_unique<Model>();
  model->path = file->name();
  absl::StatusOr<Header> header = ReadHeader(*file, options);
  if (!header.ok()) return ExplainContent(Annotate(header.status(), file->name()), *file, kFormat);
  Shard shard;
  shard.path = model->path;
  shard.file = std::move(file);
  model->shards.push_back(std::move(shard));
  model->entries = std::move(header->entries);
  model->metadata = std::move(header->metadata);
  model->notes = std::move(header->notes);
  model->header_bytes = header->size_bytes;
  CASK_ANNOTATE_IF_ERROR(FinishModel(options, model.get()), model->path);
  return model;
}

}  // namespace tensorcask::safetensors
