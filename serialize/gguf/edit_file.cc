#include "tensorcask/serialize/gguf/edit_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
#include "tensorcask/serialize/io/paced_sink.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::gguf {
namespace {

constexpr uint64_t kPaddedBytes = uint64_t{1} << 20;  // of data: worth a key that lets the file system share them
constexpr uint64_t kSharedBlockBytes = 4096;

// A tensor that stays.
struct KeptTensor {
  const HeaderTensor* tensor;
  uint64_t offset;  // new, from the start of the data
};

class GgufEditor {
 public:
  GgufEditor(const FileEdits& edits, const FileEditOptions& options) : edits_(edits), options_(options) {}

  absl::StatusOr<FileEditResult> Run(const std::string& path) {
    ReadOptions read;
    read.file_system = options_.file_system;
    ListingBudget budget(options_.limits);
    CASK_ASSIGN_OR_RETURN(const Model model, OpenModel(path, {read, options_.limits, &budget}));
    if (model.parts.size() > 1) {
      return absl::UnimplementedError(absl::StrCat(path, ": is a model in ", model.parts.size(),
                                                   " files, which are not edited; convert makes one file of them"));
    }
    file_ = model.parts[0].file.get();
    header_ = &model.parts[0].header;
    result_.notes = model.notes;
    result_.files.push_back(options_.output.empty() ? path : options_.output);
    const absl::Status planned = Plan(model.values);
    if (!planned.ok()) return Annotate(planned, path);
    for (const KeptTensor& kept : kept_) result_.copied_bytes += kept.tensor->stored_bytes;
    result_.written_bytes = text_.size();
    if (!options_.dry_run) CASK_RETURN_IF_ERROR(Write(path));
    return std::move(result_);
  }

 private:
  absl::Status Plan(const ValueTree& values) {
    HeaderText header(header_->big_endian);
    CASK_RETURN_IF_ERROR(AddKeys(values, &header));
    for (const auto& [from, to] : edits_.renames) {
      const absl::Status valid = CheckTensorName(to);
      if (!valid.ok()) return Annotate(valid, absl::StrCat("tensor ", Quoted(from), " as ", Quoted(to)));
    }
    uint64_t offset = 0;
    for (const HeaderTensor& tensor : header_->tensors) {
      if (edits_.removed.count(tensor.name) != 0) continue;
      const auto renamed = edits_.renames.find(tensor.name);
      header.Tensor(renamed != edits_.renames.end() ? renamed->second : tensor.name, *tensor.type, tensor.shape,
                    offset);
      kept_.push_back({&tensor, offset});
      offset = (offset + tensor.stored_bytes + alignment_ - 1) / alignment_ * alignment_;
    }
    data_bytes_ = offset;
    AddPadding(&header);
    text_ = header.Finish(header_->version, alignment_);
    return absl::OkStatus();
  }

  // The keys that stay, in their order, then the new ones.
  absl::Status AddKeys(const ValueTree& values, HeaderText* header) {
    alignment_ = header_->alignment;
    std::vector<absl::string_view> seen;
    for (const HeaderKey& key : header_->keys) {
      seen.push_back(key.name);
      if (edits_.unset_metadata.count(key.name) != 0) {
        if (key.name == kAlignmentKey) alignment_ = kDefaultAlignment;
        continue;
      }
      if (key.name == kPaddingKey) continue;
      const auto set = edits_.set_metadata.find(key.name);
      if (set != edits_.set_metadata.end()) {
        CASK_RETURN_IF_ERROR(SetKey(set->first, set->second, values.value(key.value), header));
        continue;
      }
      std::string typed(static_cast<size_t>(key.stored_bytes), '\0');
      CASK_RETURN_IF_ERROR(file_->ReadAt(key.offset, absl::MakeSpan(&typed[0], typed.size())));
      header->Key(key.name, typed);
    }
    for (const auto& [name, text] : edits_.set_metadata) {
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      CASK_RETURN_IF_ERROR(SetKey(name, text, std::nullopt, header));
    }
    return absl::OkStatus();
  }

  absl::Status SetKey(const std::string& name, absl::string_view text, const std::optional<Value>& old,
                      HeaderText* header) {
    const absl::Status set = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(CheckKeyName(name));
      CASK_RETURN_IF_ERROR(CheckWritableKey(name));
      CASK_ASSIGN_OR_RETURN(const ValueTree value, ParseValue(text, old));
      if (name == kAlignmentKey) {
        CASK_ASSIGN_OR_RETURN(alignment_, AlignmentOfValue(value.root()));
      }
      CASK_ASSIGN_OR_RETURN(const std::string typed, EncodeValue(value.root(), header_->big_endian));
      header->Key(name, typed);
      return absl::OkStatus();
    }();
    return set.ok() ? set : Annotate(set, absl::StrCat("key ", Quoted(name)));
  }

  // A key whose only use is its length. It lies before the tensors, whose names and sizes come behind all keys.
  void AddPadding(HeaderText* header) const {
    if (data_bytes_ < kPaddedBytes || alignment_ >= kSharedBlockBytes || kept_.empty()) return;
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
    return EncodeValue(tree.root(), header_->big_endian).value();
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
      CASK_RETURN_IF_ERROR(to->AppendFrom(*file_, from, end - from));
    }
    return pad(data_bytes_);
  }

  absl::Status Write(const std::string& path) {
    Publication publish({options_.file_system, options_.sync, /*overwrite=*/options_.output.empty()});
    publish.KeepPermissionsOf(path);
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(result_.files[0]));
    PacedSink paced(sink, &options_.progress);
    CASK_RETURN_IF_ERROR(paced.Append(text_));
    CASK_RETURN_IF_ERROR(CopyData(&paced));
    return publish.Commit();
  }

  const FileEdits& edits_;
  const FileEditOptions& options_;
  FileEditResult result_;
  const ByteSource* file_ = nullptr;
  const Header* header_ = nullptr;
  std::vector<KeptTensor> kept_;
  uint64_t alignment_ = 0;   // new
  uint64_t data_bytes_ = 0;  // new, with padding
  std::string text_;         // the new header
};

}  // namespace

absl::StatusOr<FileEditResult> EditGguf(const std::string& path, const FileEdits& edits,
                                        const FileEditOptions& options) {
  return GgufEditor(edits, options).Run(path);
}

}  // namespace tensorcask::gguf
