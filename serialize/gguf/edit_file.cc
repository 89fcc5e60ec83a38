#include "tensorcask/serialize/gguf/edit_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/gguf/internal/header.h"
#include "tensorcask/serialize/gguf/internal/header_text.h"
#include "tensorcask/serialize/gguf/internal/open_parts.h"
#include "tensorcask/serialize/gguf/internal/value_types.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::gguf {
namespace {

// From this size on, data is worth a key that lets the file system share it.
constexpr uint64_t kPaddedBytes = uint64_t{1} << 20;
constexpr uint64_t kSharedBlockBytes = 4096;

// A tensor that stays.
struct KeptTensor {
  const HeaderTensor* tensor;
  uint64_t offset;  // new, from the start of the data
};

// One file with a new header.
class PartEditor {
 public:
  PartEditor(const FileEdits& edits, const Part& part) : edits_(edits), part_(part) {}

  // `first` is the first part of the model, whose keys have the values of `values`; `num_removed` counts tensors of all
  // parts. Errors: InvalidArgument, without the name of the file.
  absl::Status Plan(const Part& first, const ValueTree& values, size_t num_removed) {
    HeaderText header(part_.header.big_endian);
    CASK_RETURN_IF_ERROR(AddKeys(first, values, num_removed, &header));
    uint64_t offset = 0;
    for (const HeaderTensor& tensor : part_.header.tensors) {
      if (edits_.removed.count(tensor.name) != 0) {
        has_changes_ = true;
        continue;
      }
      const auto renamed = edits_.renames.find(tensor.name);
      const bool is_renamed = renamed != edits_.renames.end();
      has_changes_ = has_changes_ || is_renamed;
      header.Tensor(is_renamed ? renamed->second : tensor.name, *tensor.type, tensor.shape, offset);
      kept_.push_back({&tensor, offset});
      offset = (offset + tensor.stored_bytes + alignment_ - 1) / alignment_ * alignment_;
    }
    data_bytes_ = offset;
    AddPadding(&header);
    text_ = header.Finish(part_.header.version, alignment_);
    return absl::OkStatus();
  }

  bool has_changes() const { return has_changes_; }
  const std::string& path() const { return part_.file->name(); }
  const std::shared_ptr<const ByteSource>& file() const { return part_.file; }
  uint64_t header_bytes() const { return text_.size(); }
  uint64_t copied_bytes() const {
    uint64_t bytes = 0;
    for (const KeptTensor& kept : kept_) bytes += kept.tensor->stored_bytes;
    return bytes;
  }

  absl::Status Write(ByteSink* to) const {
    CASK_RETURN_IF_ERROR(to->Append(text_));
    return CopyData(to);
  }

 private:
  // The keys that stay, in their order, then the new ones, which the first part has.
  absl::Status AddKeys(const Part& first, const ValueTree& values, size_t num_removed, HeaderText* header) {
    alignment_ = part_.header.alignment;
    absl::flat_hash_map<absl::string_view, ValueTree::Id> old_values;
    for (const HeaderKey& key : first.header.keys) old_values.emplace(key.name, key.value);
    std::vector<absl::string_view> seen;
    for (const HeaderKey& key : part_.header.keys) {
      seen.push_back(key.name);
      if (edits_.unset_metadata.count(key.name) != 0) {
        if (key.name == kAlignmentKey) alignment_ = kDefaultAlignment;
        has_changes_ = true;
        continue;
      }
      const auto set = edits_.set_metadata.find(key.name);
      if (set != edits_.set_metadata.end()) {
        const auto old = old_values.find(key.name);
        CASK_RETURN_IF_ERROR(
            SetKey(set->first, set->second,
                   old != old_values.end() ? std::optional<Value>(values.value(old->second)) : std::nullopt, header));
        continue;
      }
      if (key.is_padding) continue;
      if (key.name == kTensorCountKey && num_removed > 0) {
        const auto old = old_values.find(key.name);
        CASK_RETURN_IF_ERROR(SetTensorCount(values.value(old->second), num_removed, header));
        continue;
      }
      std::string typed(static_cast<size_t>(key.stored_bytes), '\0');
      CASK_RETURN_IF_ERROR(part_.file->ReadAt(key.offset, absl::MakeSpan(&typed[0], typed.size())));
      AddKey(key.name, typed, header);
    }
    if (&first != &part_) return absl::OkStatus();
    for (const auto& [name, text] : edits_.set_metadata) {
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      CASK_RETURN_IF_ERROR(SetKey(name, text, std::nullopt, header));
    }
    return absl::OkStatus();
  }

  absl::Status SetKey(const std::string& name, absl::string_view text, const std::optional<Value>& old,
                      HeaderText* header) {
    has_changes_ = true;
    const absl::Status set = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(CheckKeyName(name));
      CASK_ASSIGN_OR_RETURN(const ValueTree value, ParseValue(text, old));
      CASK_RETURN_IF_ERROR(CheckWritableKey(name, value.root()));
      if (name == kAlignmentKey) {
        CASK_ASSIGN_OR_RETURN(alignment_, AlignmentOfValue(value.root()));
      }
      CASK_ASSIGN_OR_RETURN(const std::string typed, EncodeValue(value.root(), part_.header.big_endian));
      AddKey(name, typed, header);
      return absl::OkStatus();
    }();
    return set.ok() ? set : Annotate(set, absl::StrCat("key ", Quoted(name)));
  }

  void AddKey(absl::string_view name, absl::string_view typed, HeaderText* header) {
    has_padding_key_ = has_padding_key_ || name == kPaddingKey;
    header->Key(name, typed);
  }

  absl::Status SetTensorCount(Value old, size_t num_removed, HeaderText* header) {
    has_changes_ = true;
    ValueTree count;
    count.AddInt(old.int_value() - static_cast<int64_t>(num_removed), old.bits());
    CASK_ASSIGN_OR_RETURN(const std::string typed, EncodeValue(count.root(), part_.header.big_endian));
    header->Key(kTensorCountKey, typed);
    return absl::OkStatus();
  }

  // A key whose only use is its length. It lies before the tensors, whose names and sizes come after all keys.
  void AddPadding(HeaderText* header) const {
    if (data_bytes_ < kPaddedBytes || alignment_ >= kSharedBlockBytes || kept_.empty() || has_padding_key_) return;
    const auto start = [&](uint64_t bytes) { return (bytes + alignment_ - 1) / alignment_ * alignment_; };
    const uint64_t wanted = kept_[0].tensor->offset % kSharedBlockBytes;
    if (start(header->size_bytes()) % kSharedBlockBytes == wanted) return;
    const std::string empty = TypedText("");
    const uint64_t least = start(header->size_bytes() + 8 + kPaddingKey.size() + empty.size());
    const uint64_t spaces = (wanted + kSharedBlockBytes - least % kSharedBlockBytes) % kSharedBlockBytes;
    header->Key(kPaddingKey, TypedText(std::string(static_cast<size_t>(spaces), ' ')));
  }

  std::string TypedText(absl::string_view text) const {
    ValueTree tree;
    tree.AddText(text);
    return EncodeValue(tree.root(), part_.header.big_endian).value();
  }

  // Neighbours that stay neighbours are copied together, with the padding between them and nothing else: no bytes of a
  // tensor that is removed.
  absl::Status CopyData(ByteSink* to) const {
    const uint64_t data_start = to->position();
    const auto pad = [&](uint64_t offset) {
      return to->Append(std::string(static_cast<size_t>(data_start + offset - to->position()), '\0'));
    };
    for (size_t i = 0; i < kept_.size();) {
      CASK_RETURN_IF_ERROR(pad(kept_[i].offset));
      const uint64_t from = kept_[i].tensor->offset;
      const uint64_t shift = from - kept_[i].offset;  // may wrap
      const HeaderTensor* last = nullptr;
      for (; i < kept_.size() && kept_[i].tensor->offset - kept_[i].offset == shift; ++i) {
        if (last != nullptr && kept_[i].tensor != last + 1) break;
        last = kept_[i].tensor;
      }
      const uint64_t end = last->offset + last->stored_bytes;
      CASK_RETURN_IF_ERROR(to->AppendFrom(*part_.file, from, end - from));
    }
    return pad(data_bytes_);
  }

  const FileEdits& edits_;
  const Part& part_;
  std::vector<KeptTensor> kept_;
  bool has_changes_ = false;
  bool has_padding_key_ = false;  // its value is not padding
  uint64_t alignment_ = 0;        // new
  uint64_t data_bytes_ = 0;       // new, with padding
  std::string text_;              // the new header
};

class GgufEditor {
 public:
  GgufEditor(const FileEdits& edits, const FileEditOptions& options) : edits_(edits), options_(options) {}

  absl::StatusOr<FileEditResult> Run(const std::string& path) {
    ReadOptions read;
    read.file_system = options_.file_system;
    ListingBudget budget(options_.limits);
    CASK_ASSIGN_OR_RETURN(const Model model, OpenModel(path, {read, options_.limits, &budget}));
    CASK_ANNOTATE_IF_ERROR(CheckKeys(model), path);
    CASK_ANNOTATE_IF_ERROR(CheckNames(model), path);
    std::vector<PartEditor> parts;
    for (const Part& part : model.parts) {
      parts.emplace_back(edits_, part);
      CASK_ANNOTATE_IF_ERROR(parts.back().Plan(model.parts[0], model.values, edits_.removed.size()), part.file->name());
    }
    CASK_ASSIGN_OR_RETURN(const std::vector<NewPart> written, ChooseFiles(path, parts));
    FileEditResult result;
    result.notes = model.notes;
    for (const NewPart& part : written) {
      result.files.push_back(part.path);
      result.copied_bytes += part.editor->copied_bytes();
      result.written_bytes += part.editor->header_bytes();
    }
    if (!options_.dry_run) CASK_RETURN_IF_ERROR(Write(written));
    return result;
  }

 private:
  struct NewPart {
    const PartEditor* editor;
    std::string path;
  };

  // SetKey refuses to set these keys.
  absl::Status CheckKeys(const Model& model) const {
    for (const std::string& name : edits_.unset_metadata) {
      if (model.parts.size() == 1 || !IsSplitKey(name)) continue;
      return absl::InvalidArgumentError(absl::StrCat("key ", Quoted(name), ": joins the ", model.parts.size(),
                                                     " files of the model, so it cannot be removed; tensorcask "
                                                     "convert makes one file of them"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNames(const Model& model) const {
    absl::flat_hash_set<absl::string_view> names;
    for (const Part& part : model.parts) {
      for (const HeaderTensor& tensor : part.header.tensors) names.insert(tensor.name);
    }
    for (const std::string& name : edits_.removed) {
      if (!names.contains(name)) return absl::NotFoundError(absl::StrCat("there is no tensor ", Quoted(name)));
    }
    for (const auto& [from, to] : edits_.renames) {
      if (!names.contains(from)) return absl::NotFoundError(absl::StrCat("there is no tensor ", Quoted(from)));
      CASK_ANNOTATE_IF_ERROR(CheckTensorName(to), absl::StrCat("tensor ", Quoted(from), " as ", Quoted(to)));
    }
    return absl::OkStatus();
  }

  // The files to write: into options_.output all parts, else the one that changes. The names of the parts of a model
  // say where the others are, so several cannot be replaced at one moment.
  absl::StatusOr<std::vector<NewPart>> ChooseFiles(const std::string& path,
                                                   const std::vector<PartEditor>& parts) const {
    std::vector<NewPart> written;
    if (parts.size() == 1) {
      written.push_back({&parts[0], options_.output.empty() ? path : options_.output});
      return written;
    }
    if (options_.output.empty()) {
      for (const PartEditor& part : parts) {
        if (part.has_changes()) written.push_back({&part, part.path()});
      }
      if (written.size() <= 1) return written;
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": ", written.size(), " of the ", parts.size(),
          " files of the model would change, and they cannot be replaced at one moment; write the model under another "
          "name (--output NAME",
          EndOfName(0, parts.size()), ")"));
    }
    const std::string end = EndOfName(0, parts.size());
    if (!absl::EndsWith(options_.output, end)) {
      return absl::InvalidArgumentError(absl::StrCat(options_.output, ": the name of the first file of a model of ",
                                                     parts.size(), " files ends in ", end));
    }
    const std::string prefix = options_.output.substr(0, options_.output.size() - end.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      written.push_back({&parts[i], absl::StrCat(prefix, EndOfName(i, parts.size()))});
    }
    return written;
  }

  // The first part comes last: a model is complete as soon as it is there.
  absl::Status Write(const std::vector<NewPart>& parts) const {
    Publication publish({options_.file_system, options_.sync, /*overwrite=*/options_.output.empty()});
    publish.ReplaceOnly(parts[0].editor->file());
    uint64_t copied = 0;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      publish.KeepPermissionsOf(part->editor->path());
      CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(part->path));
      PacedSink paced(sink, &options_.progress, copied);
      CASK_RETURN_IF_ERROR(part->editor->Write(&paced));
      copied = paced.copied();
    }
    return publish.Commit();
  }

  const FileEdits& edits_;
  const FileEditOptions& options_;
};

}  // namespace

absl::StatusOr<FileEditResult> EditGguf(const std::string& path, const FileEdits& edits,
                                        const FileEditOptions& options) {
  return GgufEditor(edits, options).Run(path);
}

}  // namespace tensorcask::gguf
